# man_commands.awk - the manual pages of the program, one for each command, into the folder `out`:
#   awk -v out=FOLDER -v version=0.1.0 -f man_commands.awk src/cli/*.c docs/hilbert.1
# Summaries and examples are those of the command tables, everything else is cut out of hilbert.1,
# which keeps all commands in one file. Works with mawk and gawk.

function roff(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); gsub(/^[.']/, "\\\\\\&&", text); return text }

# The C string in `text`, which may be several literals in a row.
function unquote(text,    result) {
    result = ""
    while (match(text, /"([^"\\]|\\.)*"/)) {
        result = result substr(text, RSTART + 1, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
    }
    gsub(/\\"/, "\"", result)
    return result
}

# A field of a command's table has ended.
function take_field(    key) {
    key = field
    sub(/^ *\./, "", key)
    sub(/ =.*/, "", key)
    if (key == "name") { name = unquote(field); names[++count] = name }
    if (key == "summary") summary[name] = unquote(field)
    if (key == "example") example[name] = unquote(field)
    field = ""
}

FILENAME !~ /\.1$/ {
    if ($0 ~ /^const hil_command /) in_table = 1
    if ($0 ~ /^};/) in_table = 0
    if (in_table && $0 ~ /^    \.(name|summary|example) =( |$)/) field = $0
    else if (field != "") field = field $0
    if (field != "" && $0 ~ /,$/) take_field()
    next
}

/^\.TH / { head = $0; sub(/"hilbert [0-9.]*"/, "\"hilbert " version "\"", head); next }
/^\.SH / { section = substr($0, 5); part = ""; order[++sections] = section; next }
/^\.SS / && section == "COMMANDS" { part = substr($0, 5); next }
section == "COMMANDS" && part != "" { body[part] = body[part] $0 "\n"; next }
section == "SYNOPSIS" && match($0, /\\fBhilbert [a-z]+/) {
    word = substr($0, RSTART + 11, RLENGTH - 11)
    if (!(word in synopsis) && word != "help") {
        synopsis[word] = $0
        if (!overview++) text[section] = text[section] "\\fBhilbert\\fR \\fIcommand\\fR [\\fIoption\\fR...]\n"
        next
    }
}
{ text[section] = text[section] $0 "\n" }

function title(page,    line) {
    line = head
    sub(/HILBERT/, toupper(roff(page)), line)
    return line
}

function brief(command,    words) {
    words = summary[command]
    sub(/\.$/, "", words)
    return roff(tolower(substr(words, 1, 1)) substr(words, 2))
}

function see_also(except,    i, line) {
    line = except == "" ? "" : ".BR hilbert (1)"
    for (i = 1; i <= count; ++i)
        if (names[i] != except) line = line (line == "" ? "" : ",\n") ".BR hilbert\\-" names[i] " (1)"
    return ".SH SEE ALSO\n" line "\n"
}

function examples(command,    line, i, n, lines, result) {
    n = split(example[command], lines, /\\n/)
    result = ""
    for (i = 1; i <= n; ++i) {
        line = lines[i]
        sub(/^ +/, "", line)
        if (line != "") result = result roff(line) "\n"
    }
    return ".SH EXAMPLES\n.nf\n" result ".fi\n"
}

function write_command(command,    file, options) {
    file = out "/hilbert-" command ".1"
    printf "%s\n.SH NAME\nhilbert\\-%s \\- %s\n", title("hilbert-" command), command, brief(command) > file
    printf ".SH SYNOPSIS\n%s\n", synopsis[command] > file
    options = index(body[command], "\n.TP\n")
    printf ".SH DESCRIPTION\n%s.SH OPTIONS\n%s", substr(body[command], 1, options), substr(body[command], options + 1) > file
    if (body[command] ~ /SIZE/) printf ".SH SIZES\n%s", text["SIZES"] > file
    if (command == "train" || command == "plan") printf ".SH CONFIGURATION FILE\n%s", text["CONFIGURATION FILE"] > file
    printf ".SH EXIT STATUS\n%s", text["EXIT STATUS"] > file
    if (command == "train") printf ".SH FILES\n%s", text["FILES"] > file
    printf "%s%s", examples(command), see_also(command) > file
    close(file)
}

function write_overview(    file, i, j) {
    file = out "/hilbert.1"
    print head > file
    for (i = 1; i <= sections; ++i) {
        printf ".SH %s\n", order[i] > file
        if (order[i] != "COMMANDS") { printf "%s", text[order[i]] > file; continue }
        for (j = 1; j <= count; ++j)
            printf ".TP\n.BR hilbert\\-%s (1)\n%s\n", names[j], roff(summary[names[j]]) > file
    }
    printf "%s", see_also("") > file
    close(file)
}

END {
    for (i = 1; i <= count; ++i) {
        if (!(names[i] in body)) { print "hilbert.1 has no part about " names[i] > "/dev/stderr"; exit 1 }
        write_command(names[i])
    }
    write_overview()
}
