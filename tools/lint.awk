# lint.awk - the rules for C files that need no compiler: awk -f lint.awk FILE... from the root.
# Prints one line per violation. Works with mawk and gawk.

function say(text) { print FILENAME ":" FNR ": " text }
function say_at(line, text) { print file ":" line ": " text }

# The line without comments, strings and character constants; keeps state across lines.
function strip(line,    out, i, c, two, n) {
    out = ""
    n = length(line)
    for (i = 1; i <= n; ++i) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; ++i }
        } else if (two == "/*") {
            in_comment = 1; ++i
        } else if (two == "//") {
            break
        } else if (c == "\"" || c == "'") {
            for (++i; i <= n && substr(line, i, 1) != c; ++i)
                if (substr(line, i, 1) == "\\") ++i
            out = out c c
        } else {
            out = out c
        }
    }
    return out
}

function calls(text, names) { return text ~ ("(^|[^A-Za-z0-9_.>])(" names ")[ \t]*\\(") }

# The layer of a public header or a folder of src; "" when it has none.
function layer_of(target,    name) {
    if (target ~ /^hilbert\//) {
        name = substr(target, 9)
        return (name in public_layer) ? public_layer[name] : ""
    }
    sub(/\/.*/, "", target)
    return (target in rank) ? target : ""
}

function check_include(target,    here, there) {
    if (file ~ /^src\/cli\//) {
        if (target !~ /^(hilbert|base|cli)\//)
            say("cli uses only include/hilbert and base, not " target)
        return
    }
    if (file ~ /^include\//) {
        if (target !~ /^hilbert\//) { say("a public header includes only public headers, not " target); return }
        here = layer_of(substr(file, 9))
    } else {
        here = layer_of(substr(file, 5))
    }
    there = layer_of(target)
    if (here == "") { say("no layer is known for " file "; name it in tools/lint.awk"); return }
    if (there == "") { say("no layer is known for " target "; name it in tools/lint.awk"); return }
    if (here == there || rank[there] < rank[here]) return
    say("layering: " here " may not include " target " (" there " is not to its right)")
}

function check_banned(code,    library) {
    if (calls(code, "strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atoll|atof|rand|srand|strtok|tmpnam|mktemp"))
        say("banned call: unbounded, unchecked or not reproducible")
    if (code ~ /(^|[^A-Za-z0-9_])cuda[A-Z][A-Za-z0-9_]*[ \t]*\(/ &&
        file !~ /^src\/device\// && file !~ /^src\/(ops|kernels|optim)\/.*\.cu$/)
        say("cuda* belongs to device, ops/*.cu, kernels/*.cu and optim/*.cu")
    if (code ~ /(^|[^A-Za-z0-9_])(MPI_|nccl[A-Z])/ && file !~ /^src\/comm\//)
        say("MPI_* and nccl* belong to comm")
    if (code ~ /(^|[^A-Za-z0-9_])io_uring_/ && file != "src/io/io_uring.c")
        say("io_uring_* belongs to io/io_uring.c")
    if (file ~ /\.cu$/ && code ~ /[=!]= *&hil_op_/)
        say("the CUDA module has operations of its own: compare their names")
    library = file ~ /^(src|include)\// && file !~ /^src\/cli\//
    if (!library) return
    if (calls(code, "getenv|secure_getenv")) say("getenv only in cli")
    if (calls(code, file == "src/base/cpu_amx.c" ? "exit|abort" : "exit|_exit|_Exit|quick_exit|abort"))
        say("the library never ends the program") # cpu_amx.c ends the child that it forked
    if (calls(code, "printf|vprintf|puts|putchar|perror") || code ~ /(^|[^A-Za-z0-9_])(stdout|stderr)($|[^A-Za-z0-9_])/)
        say("the library never prints")
}

# Parameters of the definition whose signature is `text`: commas at depth one of the last list.
function parameters(text,    i, c, depth, count) {
    count = 0
    for (i = 1; i <= length(text); ++i) {
        c = substr(text, i, 1)
        if (c == "(") { if (++depth == 1) count = 1 }
        else if (c == ")") --depth
        else if (c == "," && depth == 1) ++count
    }
    return count
}

# A function of a header that opens, creates or starts something says what becomes of the pointers
# that it is given. Not asked of the first parameter, the object itself; of strings, which are copied
# or used within the call; and of results. `passage` is the declaration with its comments, and with
# those of an opaque type before it.
function check_owner(declaration, passage,    list, count, i, given, name) {
    if (!match(declaration, /hil_[a-z0-9_]+_(open|create|start)(_[a-z0-9_]+)?\(/)) return
    name = substr(declaration, RSTART, RLENGTH - 1)
    count = split(substr(declaration, RSTART + RLENGTH), list, ",")
    for (i = 2; i <= count; ++i)
        if (list[i] ~ /\*/ && list[i] !~ /\*\*|char |\*out\)/) given = 1
    if (given && tolower(passage) !~ /(^|[^a-z])(keeps|kept|copies|copied|borrows|borrowed|owns|owned)([^a-z]|$)/)
        say(name " does not say whether it keeps, copies, borrows or owns what it is given")
}

# Two types of one name make one function of a template, which the linker takes from either file.
function check_struct(code) {
    if (file !~ /\.cu$/ || code !~ /^(template <[^>]*> )?struct [a-z0-9_]+ [:{]/) return
    sub(/^.*struct /, "", code)
    sub(/ .*/, "", code)
    if (code in struct_file && struct_file[code] != file) say("struct " code " is in " struct_file[code] " as well")
    struct_file[code] = file
}

function end_file() {
    if (file != "" && lines > 600)
        say_at(lines, "the file has " lines " lines, more than 600: split it by noun")
}

BEGIN {
    rank["base"] = 0
    rank["device"] = rank["io"] = 1
    rank["tensor"] = rank["text"] = 2
    rank["ops"] = rank["kernels"] = rank["tier"] = rank["comm"] = 3
    rank["store"] = 4
    rank["autograd"] = 5
    rank["optim"] = rank["model"] = 6
    rank["format"] = 7
    rank["lora"] = rank["data"] = 8
    rank["machine"] = 9
    rank["plan"] = 10
    rank["train"] = rank["report"] = 11
    rank["run"] = 12
    rank["cli"] = 13
    public_layer["status.h"] = public_layer["version.h"] = public_layer["account.h"] = public_layer["device.h"] = public_layer["observer.h"] = public_layer["speeds.h"] = public_layer["custom.h"] = public_layer["preference.h"] = "base"
    public_layer["io.h"] = public_layer["memory.h"] = "io"
    public_layer["comm.h"] = "comm"
    public_layer["nn.h"] = "autograd"
    public_layer["schedule.h"] = "optim"
    public_layer["deepspeed.h"] = "format"
    public_layer["probe.h"] = "machine"
    public_layer["report.h"] = "plan"
    public_layer["store.h"] = public_layer["trainer.h"] = "train"
    public_layer["run.h"] = public_layer["plan.h"] = public_layer["checkpoint.h"] = public_layer["inspect.h"] = "run"
    marker = "TO" "DO|FIX" "ME|XX" "X|HA" "CK"
}

FNR == 1 {
    end_file()
    file = FILENAME
    sub(/^\.\//, "", file)
    name = file
    sub(/.*\//, "", name)
    in_comment = 0
    function_start = 0
    signature = ""
    options_line = 0
    declaration = passage = ""
    if (file ~ /^tests\//) {
        if ($0 !~ /^\/\* /) say("the first line is a comment that says what is tested")
    } else if (index($0, "/* " name " - ") != 1) {
        say("the first line is the file comment: /* " name " - ... */")
    }
}

{
    lines = FNR
    if ($0 ~ /[ \t]$/) say("trailing white space")
    if ($0 ~ /\t/) say("tab")
    if ($0 ~ ("(^|[^A-Za-z0-9_])(" marker ")($|[^A-Za-z0-9_])")) say("unfinished work marker")
    code = strip($0)
    if (code ~ /^[ \t]*#[ \t]*include[ \t]*"/ && file ~ /^(src|include)\//) {
        target = $0
        sub(/^[^"]*"/, "", target)
        sub(/".*/, "", target)
        if (target !~ /^[a-z0-9_]+(\/[a-z0-9_]+)?\/[a-z0-9_]+\.h$/) say("include by folder and name, not " target)
        else check_include(target)
    }
    if (code ~ /^[ \t]*#[ \t]*include[ \t]*</ && file ~ /^(src|include)\// && $0 ~ /<hilbert\//)
        say("inside the tree, include \"hilbert/...\"")
    check_banned(code)
    check_struct(code)
    if (file ~ /^src\/.*\.h$/) {
        passage = passage "\n" $0
        declaration = declaration code
        if (code ~ /[;{}][ \t]*$/ || code ~ /^#/) {
            if (code ~ /;[ \t]*$/ && declaration !~ /^[ \t]*typedef/) check_owner(declaration, passage)
            if (code !~ /^typedef struct hil_[a-z0-9_]+ hil_[a-z0-9_]+;/) passage = ""
            declaration = ""
        }
    }
    if (file ~ /^include\// && code ~ /^typedef struct hil_[a-z_]*_options \{/ && code !~ /hil_memory_options/)
        options_line = FNR # of which hil_memory_options is always a part
    else if (options_line == FNR - 1 && options_line && code !~ /^    size_t size;/)
        say("a structure of options begins with size_t size")

    if (code ~ /HIL_TRY(_DONE)?\(/ && code !~ /#[ \t]*define/) {
        try = code ~ /HIL_TRY_DONE/ ? "HIL_TRY_DONE" : "HIL_TRY"
        if (tries != "" && tries != try) say("HIL_TRY and HIL_TRY_DONE in one function")
        tries = try
    }
    if (code ~ /^[{}]/) tries = ""
    if (code ~ /^\{/) {
        function_start = FNR
        if (parameters(signature) > 6) say("more than six parameters")
        signature = ""
    } else if (code ~ /^\}/) {
        if (function_start && FNR - function_start + 1 > 80)
            say_at(function_start, "the function has " (FNR - function_start + 1) " lines, more than 80")
        function_start = 0
        signature = ""
    } else if (!function_start) {
        if (code ~ /^[ \t]*#/ || code ~ /;[ \t]*$/ || code ~ /^[ \t]*$/) signature = ""
        else signature = signature code
    }
}

END { end_file() }
