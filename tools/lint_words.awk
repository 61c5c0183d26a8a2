# lint_words.awk - the rules about names, for which the whole tree is read. It follows lint.awk and
# uses its `file`, `code` and layers. `documents` lists files that are no code. One word has one
# meaning: docs/glossary.md.

function define(kind, name, seen) {
    if (name in seen) say("the " kind " " name " is also in " seen[name])
    else seen[name] = file ":" FNR
}

# A type's name where it is defined: struct hil_x {, typedef int hil_x(int), typedef int (*hil_x)(
function defined_type(code,    name) {
    if (match(code, /^[ \t]*(typedef )?(struct|enum|union) hil_[a-z0-9_]+ \{/)) {
        name = substr(code, RSTART, RLENGTH - 2)
        sub(/.* /, "", name)
        return name
    }
    if (code !~ /^typedef / || code ~ /^typedef (struct|enum|union) hil_[a-z0-9_]+ hil_/) return ""
    if (!match(code, /hil_[a-z0-9_]+\)?(\(|\[[^\]]*\];|;)/)) return ""
    name = substr(code, RSTART)
    sub(/[^a-z0-9_].*/, "", name)
    return name
}

# A note is defined where it begins a comment or a paragraph of one; elsewhere it is referred to.
function read_notes(line, at, defines,    name) {
    if (line ~ /\[Note:[^\]]*$/) print at ": the name of a note stands on one line"
    while (match(line, /\[Note: [^\]]*\]/)) {
        name = substr(line, RSTART + 7, RLENGTH - 8)
        line = substr(line, RSTART + RLENGTH)
        if (defines) define("note", name, note_at)
        else if (match(line, /^ in `?[a-z0-9_]+\.(c|h|cu)/))
            reference[at, name] = substr(line, 5, RLENGTH - 4)
        else
            reference[at, name] = ""
        defines = 0
    }
}

function check_notes(    count, list, i, n, line, key, part) {
    count = split(documents, list, " ")
    for (i = 1; i <= count; ++i)
        for (n = 1; (getline line < list[i]) > 0; ++n) read_notes(line, list[i] ":" n, 0)
    for (key in reference) {
        split(key, part, SUBSEP)
        sub(/`/, "", reference[key])
        if (!(part[2] in note_at)) print part[1] ": there is no note " part[2]
        else if (reference[key] != "" && index(note_at[part[2]], "/" reference[key] ":") == 0)
            print part[1] ": the note " part[2] " is in " note_at[part[2]]
    }
}

# The folder of src that a header belongs to: that of its layer if it is public.
function folder_of(at) {
    sub(/:.*/, "", at)
    if (at ~ /^include\//) return layer_of(substr(at, 9))
    sub(/^src\//, "", at)
    sub(/\/.*/, "", at)
    return at
}

# The noun of hil_<noun>_<verb>: the longest that is a type, otherwise the first word.
function noun_of(name,    longest) {
    for (longest = name; longest ~ /^hil_/; sub(/_[^_]*$/, "", longest))
        if (longest in type_at) return longest
    sub(/^hil_/, "", name)
    sub(/_.*/, "", name)
    return "hil_" name
}

# The functions of a noun are declared in one folder; a public header may show what lies below it.
function check_nouns(    i, noun, folder) {
    for (i = 1; i <= functions; ++i) {
        if (function_at[i] ~ /^include\//) continue
        noun = noun_of(function_name[i])
        folder = folder_of(function_at[i])
        if (!(noun in noun_at)) noun_at[noun] = function_at[i]
        else if (folder_of(noun_at[noun]) != folder)
            print function_at[i] ": " noun "_* belongs to src/" folder_of(noun_at[noun]) " (" noun_at[noun] ")"
    }
    for (i = 1; i <= functions; ++i) {
        noun = noun_of(function_name[i])
        if (function_at[i] !~ /^include\// || !(noun in noun_at)) continue
        if (rank[folder_of(noun_at[noun])] > rank[folder_of(function_at[i])])
            print function_at[i] ": " noun "_* belongs to a layer above (" noun_at[noun] ")"
    }
}

# The glossary has a row for the first noun of every function of a header: the word itself, its
# singular, or the first word of several ("ranged file"). A row may list words with commas.
function check_glossary(    glossary, line, n, cell, words, word, count, i, part, singular) {
    glossary = "docs/glossary.md"
    if (index(" " documents " ", " " glossary " ") == 0) return
    close(glossary) # check_notes has read it
    for (n = 1; (getline line < glossary) > 0; ++n) {
        if (line !~ /^\| [a-z0-9]/ || line ~ /^\| word /) continue
        split(line, cell, / \| /)
        count = split(substr(cell[1], 3), words, /, /)
        for (i = 1; i <= count; ++i) {
            word = words[i]
            if (word in row) print glossary ":" n ": " word " has a row already, line " row[word]
            row[word] = n
            sub(/ .*/, "", word)
            explained[word] = 1
        }
    }
    for (i = 1; i <= functions; ++i) {
        if (split(function_name[i], part, "_") < 3) continue
        singular = part[2]
        sub(/s$/, "", singular)
        if (part[2] in explained || singular in explained) continue
        print function_at[i] ": " glossary " has no row for " part[2]
        explained[part[2]] = 1
    }
}

FNR == 1 { before = table = "" }
/\[Note:/ {
    read_notes($0, file ":" FNR,
               /^[ \t]*\/\* \[Note: / || (/^[ \t]*\[Note: / && before ~ /^[ \t]*$/))
}
{ before = $0 }

code ~ /^[ \t]*(typedef|struct|enum|union)[ \t]/ {
    type = defined_type(code)
    if (type != "") define("type", type, type_at)
    if (code !~ /^[ \t]/) {
        table = code ~ /^(typedef )?struct .*\{$/ ? type : ""
        slots = 0
    }
}
table != "" && code ~ /^    [^ ].*\(\*[a-z0-9_]+\)\(/ { ++slots }
table != "" && code ~ /^\}/ {
    if (slots > 8) say(table " has " slots " functions, more than 8: split it by what uses it")
    table = ""
}

file ~ /^(src|include)\/.*\.h$/ && code ~ /^[A-Za-z_]/ && code !~ /^typedef/ &&
match(code, /(^|[ *])hil_[a-z0-9_]+\(/) {
    function_name[++functions] = substr(code, RSTART, RLENGTH - 1)
    gsub(/[ *]/, "", function_name[functions])
    function_at[functions] = file ":" FNR
}

END {
    check_notes()
    check_nouns()
    check_glossary()
}
