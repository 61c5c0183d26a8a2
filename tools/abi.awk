# abi.awk - the public headers after the preprocessor -> a C program that prints the layout of every
# structure and the value of every constant. Used by tools/abi.sh.

# The name that a declaration of a member declares, or "".
function declared(text) {
    if (match(text, /\(\*[a-z_0-9]+\)/)) return substr(text, RSTART + 2, RLENGTH - 3)
    sub(/\[.*/, "", text)
    gsub(/[ \t]+$/, "", text)
    if (match(text, /[A-Za-z_0-9]+$/)) return substr(text, RSTART)
    return ""
}

function show_struct(name, body, part, piece, count, pieces, i, k, field) {
    printf "    printf(\"struct %s %%zu\\n\", sizeof(%s));\n", name, name
    count = split(body, part, ";")
    for (i = 1; i <= count; ++i) {
        pieces = part[i] ~ /\(\*/ ? 1 : split(part[i], piece, ",")
        if (part[i] ~ /\(\*/) piece[1] = part[i]
        for (k = 1; k <= pieces; ++k) {
            field = declared(piece[k])
            if (field == "") continue
            printf "    printf(\"  %s %%zu %%zu\\n\", offsetof(%s, %s), sizeof((%s *)0)->%s);\n", \
                field, name, field, name, field
        }
    }
}

function show_enum(name, body, part, count, i) {
    printf "    printf(\"enum %s\\n\");\n", name
    count = split(body, part, ",")
    for (i = 1; i <= count; ++i)
        if (match(part[i], /[A-Z][A-Z_0-9]+/))
            printf "    printf(\"  %s %%d\\n\", (int)%s);\n", substr(part[i], RSTART, RLENGTH), \
                substr(part[i], RSTART, RLENGTH)
}

/^# [0-9]+ "/ { ours = $3 ~ /hilbert\/[a-z]+\.h"$/; next }
/^#/ { next }
ours { text = text " " $0 }

END {
    gsub(/(\[\[[a-z_]*\]\]|__attribute__\(\([a-z_]*\)\)) /, "", text)
    print "#include <stddef.h>\n#include <stdio.h>"
    print "#include \"all.h\"\nint main(void)\n{"
    while (match(text, /typedef (struct|enum) [a-z_0-9]+ *\{[^}]*\} *[a-z_0-9]+ *;/)) {
        one = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        kind = one ~ /^typedef struct/ ? "struct" : "enum"
        body = one
        sub(/^[^{]*\{/, "", body)
        sub(/\}[^}]*$/, "", body)
        name = one
        sub(/^.*\} */, "", name)
        sub(/ *;$/, "", name)
        if (kind == "struct") show_struct(name, body)
        else show_enum(name, body)
    }
    print "    return 0;\n}"
}
