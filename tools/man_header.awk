# man_header.awk - the manual page of a public header, from its comments, on the standard output:
#   awk -v version=0.1.0 -f man_header.awk include/hilbert/io.h
# The file comment becomes the description; every declaration stands above the comment that precedes
# it in the header. Works with mawk and gawk.

function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/) text = "\\&" text
    return text
}

# Prints a comment's lines as paragraphs; lines that are indented by more than three stand as they are.
function paragraphs(comment,    n, i, lines, raw) {
    n = split(comment, lines, /\n/)
    raw = 0
    for (i = 1; i <= n; ++i) {
        if ((lines[i] ~ /^     / || (raw && lines[i] == "")) != raw) { raw = !raw; print raw ? ".PP\n.nf" : ".fi\n.PP" }
        else if (lines[i] == "" && i < n) print ".PP"
        if (lines[i] != "") { sub(/^   /, "", lines[i]); print roff(lines[i]) }
    }
    if (raw) print ".fi"
}

function flush_code() {
    if (code == "") {
        if (comment != "") { print ".PP"; paragraphs(comment) }
        comment = ""
        return
    }
    printf ".PP\n.nf\n%s.fi\n", code
    if (comment != "") { print ".RS"; paragraphs(comment); print ".RE" }
    code = comment = ""
}

function begin_page(first,    name) {
    name = first
    sub(/^\/\* /, "", name)
    sub(/\.h - .*/, "", name)
    sub(/^[^-]*- /, "", first)
    gsub(/ *\*\/ *$/, "", first)
    sub(/\.$/, "", first)
    printf ".TH %s 3 \"\" \"hilbert %s\" \"Library Functions\"\n", toupper(roff("hilbert-" name)), version
    printf ".SH NAME\nhilbert\\-%s \\- %s\n.SH SYNOPSIS\n.nf\n#include <hilbert/%s.h>\n\n", name, roff(first), name
    print "cc ... $(pkg\\-config \\-\\-cflags \\-\\-libs hilbert)\n.fi"
}

FNR == 1 {
    begin_page($0)
    in_file_comment = $0 !~ /\*\//
    next
}
in_file_comment {
    line = $0
    if (line ~ /\*\//) in_file_comment = 0
    sub(/ *\*\/ *$/, "", line)
    sub(/^   /, "", line)
    about = about (about == "" ? "" : "\n") (line == "" ? "" : "   " line)
    next
}
/^#include "hilbert\// {
    other = $2
    gsub(/"|hilbert\/|\.h/, "", other)
    others = others (others == "" ? "" : ",\n") ".BR hilbert\\-" other " (3)"
    next
}
/^#(include|if|ifdef|ifndef|else|elif|endif|error|undef|define HIL_NODISCARD_TYPE)/ || /^#define HILBERT_[A-Z]+_H$/ || /^#define [A-Z_]+( __attribute__.*)?$/ { next }
/^extern "C"/ || /^}$/ { next }
!begun {
    begun = 1
    if (about != "") { print ".SH DESCRIPTION"; sub(/^\n+/, "", about); paragraphs(about) }
    print ".SH DECLARATIONS"
}
/^$/ { if (!depth) flush_code(); next }
/^\/\*/ || in_comment {
    if (!in_comment) flush_code()
    line = $0
    in_comment = line !~ /\*\//
    sub(/^\/\* /, "   ", line)
    sub(/ *\*\/ *$/, "", line)
    comment = comment (comment == "" ? "" : "\n") line
    next
}
{
    line = $0
    if (sub(/^HIL_API /, "", line)) shifted = 1
    else if (shifted && line ~ /^        /) line = substr(line, 9) # stays below its parenthesis
    if (line ~ /;/) shifted = 0
    sub(/HIL_NODISCARD_TYPE /, "", line)
    sub(/^__extension__ /, "", line)
    bare = line
    gsub(/\/\*.*/, "", bare)
    depth += gsub(/{/, "{", bare) - gsub(/}/, "}", bare)
    code = code roff(line) "\n"
}

END {
    flush_code()
    print ".SH SEE ALSO"
    print ".BR hilbert (1)" (others == "" ? "" : ",")
    if (others != "") print others
}
