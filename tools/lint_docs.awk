# lint_docs.awk - documents name only what there is: { find .; names; } | awk -f lint_docs.awk - DOCUMENT...
# The input has the files of the tree and the names hil_... in its sources. Looks at links (files and
# headings) and at inline code that is a path of the tree, the name of a source file, a name hil_..., or
# a "`function` in `src/file.c`". Fenced blocks are not looked at. Works with mawk and gawk.

function say(text) { print FILENAME ":" FNR ": " text }

# A path with *, ? and {a,b} as an expression.
function expression(glob) {
    gsub(/\./, "\\.", glob)
    gsub(/\*/, "[^/]*", glob)
    gsub(/{/, "(", glob)
    gsub(/}/, ")", glob)
    if (glob ~ /\(/) gsub(/,/, "|", glob)
    return "(^|/)" glob "$"
}

# The file or folder that `path` names: from the root, or by the end of its path; "" when there is none.
function find(path,    pattern, known) {
    sub(/\/$/, "", path)
    if (path in whole) return whole[path]
    if (path !~ /[*{]/) return ""
    if (path in matched) return matched[path]
    pattern = expression(path)
    for (known in file) if (known ~ pattern) return matched[path] = known
    return matched[path] = ""
}

# The heading's anchor, as GitHub makes it.
function anchor(heading) {
    sub(/^#+ */, "", heading)
    heading = tolower(heading)
    gsub(/[^a-z0-9 _-]/, "", heading)
    gsub(/ /, "-", heading)
    return heading
}

function has_heading(document, wanted,    line, found, fenced) {
    if (!(document in read)) {
        read[document] = 1
        while ((getline line < document) > 0) {
            if (line ~ /^```/) fenced = !fenced
            if (!fenced && line ~ /^#/) heading[document, anchor(line)] = 1
        }
        close(document)
    }
    return (document, wanted) in heading
}

function check_link(target,    path, mark) {
    if (target ~ /^[a-z]+:/) return
    mark = path = target
    sub(/#.*/, "", path)
    if (!sub(/^[^#]*#/, "", mark)) mark = ""
    if (path == "") path = FILENAME
    else {
        path = folder path
        sub(/^\.\//, "", path)
        while (sub(/[^\/]+\/\.\.\//, "", path));
        sub(/\/$/, "", path)
    }
    if (!(path in file)) say("there is no " path)
    else if (mark != "" && !has_heading(path, mark)) say(path " has no heading #" mark)
}

function check_code(code) {
    if (code ~ /^hil_[a-z0-9_]+$/ && !(code in named)) say("there is no " code " in src or include")
    if (code !~ /^[A-Za-z0-9_.*\/{},-]+$/) return ""
    if (code !~ /^(src|include|tests|tools|docs|cmake|fuzz|bench|examples|\.ci|\.github)\/./ &&
        code !~ /^[A-Za-z0-9_*\/{},]+\.(c|h|cu|awk|cmake)$/) return ""
    if (find(code) == "") say("there is no " code)
    return find(code)
}

# "`name` in `path`": the file has that word.
function check_function(name, path,    line, found) {
    if (name !~ /^[a-z_][a-z0-9_]+$/ || path ~ /[*{]/ || path !~ /\.(c|h|cu|awk)$/) return
    while (!found && (getline line < path) > 0) found = index(line, name)
    close(path)
    if (!found) say(path " has no " name)
}

(FILENAME == "-" || FILENAME == "") && /^hil_/ { named[$0] = 1; next }
FILENAME == "-" || FILENAME == "" {
    path = $0
    sub(/^\.\//, "", path)
    file[path] = 1
    whole[path] = path
    rest = path
    while (sub(/^[^\/]*\//, "", rest)) if (!(rest in whole)) whole[rest] = path
    next
}

FNR == 1 { fence = 0; folder = FILENAME; if (!sub(/[^\/]*$/, "", folder)) folder = "" }
/^ *```/ { fence = !fence }
fence { next }
{
    rest = $0
    while (match(rest, /\]\([^) ]+\)/)) {
        check_link(substr(rest, RSTART + 2, RLENGTH - 3))
        rest = substr(rest, RSTART + RLENGTH)
    }
    n = split($0, part, /`/)
    for (i = 2; i < n; i += 2) {
        path = check_code(part[i])
        if (path != "" && i > 2 && part[i - 1] == " in ") check_function(part[i - 2], path)
    }
}
