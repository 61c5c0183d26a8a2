#!/usr/bin/env bash
# transcripts.sh - checks the commands and outputs shown in README.md and docs/ against the program, or
# rewrites them.
#   tools/transcripts.sh check HILBERT         runs each command on small stand-ins, compares the words
#   tools/transcripts.sh write HILBERT DATA    runs them on the real data, rewrites the documents
# A transcript is a fenced block with lines that begin with "$ ". The line before it says
# "Made by `tools/transcripts.sh`, commit X:". Blocks of one document run one after the other in one
# folder. DATA holds stories260K (a model folder) and tinyshakespeare.txt.
set -euo pipefail

mode=${1-} hilbert=$(realpath "${2-}") data=${3-}
top=$(realpath "$(dirname "$0")/..")
[ "$mode" = check ] || { [ "$mode" = write ] && [ -d "$data" ]; } ||
    { sed -n '2,8s/^# //p' "$0"; exit 2; }
[ -x "$hilbert" ] || { echo "no program at $hilbert" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache CUDA_VISIBLE_DEVICES=''
commit=$(git -C "$top" rev-parse --short=9 HEAD 2> /dev/null || echo unknown)
mark='^Made by `tools/transcripts.sh`, commit [0-9a-z]*:$'

hilbert() { (exec -a hilbert "$hilbert" "$@"); }

# The model of `make demo`, from nothing.
write_config() {
    sed -n '/^cat > "$demo\/config.json"/,/^END/p' "$top/tools/demo.sh" | sed '1d;$d'
}

# A chat template for stories260K, and conversations.
add_conversations() {
    cp "$top/examples/chat_template.jinja" stories260K
    cp "$top/examples/stories.jsonl" stories.jsonl
}

# furnish DOCUMENT: what its commands find in their folder, stand-ins and real things by the same names.
furnish() {
    mkdir -p nvme
    write_config > config.json
    cat "$top"/docs/*.md > notes.txt
    if [ "$mode" = write ]; then
        cp -rL "$data/stories260K" stories260K
        ln -s "$data/tinyshakespeare.txt" tinyshakespeare.txt
        add_conversations
        return
    fi
    grep -q stories260K "$1" || return 0
    cp notes.txt tinyshakespeare.txt
    mkdir seed
    cp "$top/tests/golden/tokenizers/llama2/tokenizer.json" seed
    write_config | sed 's/"vocab_size": [0-9]*/"vocab_size": 640/; s/"hidden_size": [0-9]*/"hidden_size": 16/
        s/"intermediate_size": [0-9]*/"intermediate_size": 32/; s/"num_hidden_layers": [0-9]*/"num_hidden_layers": 1/
        s/"eos_token_id": [0-9]*/"eos_token_id": 2/' > seed/config.json
    hilbert train --model seed/config.json --data notes.txt --out stories260K --steps 1 --seq 32 --quiet
    echo '{"eos_token": "</s>"}' > stories260K/tokenizer_config.json
    add_conversations
}

# Of the lines of steps the first and the last; work that only slow machines report is left out.
shorten() {
    awk '/^(reading|measuring|evaluating|saving|planning)/ { next }
        /^step [0-9]+\/[0-9]+ / {
            split($2, of, "/")
            if (of[1] != 1 && of[1] != of[2]) { if (!cut) print "..."; cut = 1; next }
        }
        { cut = 0; print }'
}

# Without blank lines at the end.
trim() { awk '!NF { held = held "\n"; next } { printf "%s%s\n", held, $0; held = "" }'; }

# The words alone: no numbers, no units, nothing that depends on the machine or on its speed. Of
# generated text only whether there is any.
words() {
    awk '!NF || $0 == "..." { next }
        /^\$ / { command = 1; text = / (generate|chat) / }
        command { print; command = /\\$/; next }
        text { if (text == 1) print "TEXT"; text = 2; next }
        { print }' |
        sed -E '/^\$ |^ +--/!{
            s/\(.*(, avx2|, avx512|, avx512bf16|, amx|, portable)\)$/MACHINE/
            s/[0-9]+([,.:][0-9]+)*(e[+-][0-9]+)?/#/g
            s/# [KMGTP]?i?B\b/# B/g; s/#[KMGTP]\b/#/g; s/# min # s\b/#/g; s/# (ms|us|s|min|h)\b/#/g
            s/ -( |$)/ # B\1/g; s/ -( |$)/ # B\1/g
            s/(limited by:) [a-z ]+/\1 WHAT/; s/, most for .*%\)//; s/ +/ /g
            s/((device|host|disk) # B *)+/TIERS/g; s/^(activations: of # layers).*/\1/
            /^(faster: |micro-batches: |fp32 gradient sums|gradient sums and|states being)/d
        }'
}

# play FILE: runs the commands of a block and prints it with what they say.
play() {
    local line command='' blank=''
    while IFS= read -r line; do
        if [ -n "$command" ] || [[ $line == '$ '* ]]; then
            printf '%s%s\n' "$blank" "$line"
            blank='' command+="${line#$ }"$'\n'
            [[ $line == *\\ ]] && continue
            eval "$command" 2>&1 < /dev/null | shorten | trim || true
            command=''
        else
            blank=''
            [ -n "$line" ] || blank=$'\n'
        fi
    done < "$1"
}

# finish DOCUMENT LINE BLOCK: the block is whole.
finish() {
    (cd "$work/here" && play "$3") > "$work/played"
    if [ "$mode" = write ]; then
        cat "$work/played"
    elif ! diff <(words < "$3") <(words < "$work/played") > "$work/diff"; then
        printf '%s:%s is not what the program says (make transcripts rewrites it):\n' "$1" "$2" >&2
        cat "$work/diff" >&2
        bad=1
    fi
}

# document PATH: prints it with new transcripts.
document() {
    local line number=0 fence='' before='' marked=''
    rm -rf "$work/here"
    mkdir "$work/here"
    (cd "$work/here" && furnish "$1")
    while IFS= read -r line; do
        number=$((number + 1))
        if [ -n "$fence" ] && [ "$line" = '```' ]; then
            if ! grep -q '^\$ ' "$work/block"; then
                cat "$work/block"
            elif [ -z "$marked" ]; then
                echo "$1:$fence: a transcript without its line \"Made by ...\" before it" >&2
                bad=1
            else
                finish "$1" "$fence" "$work/block"
            fi
            fence=''
        elif [ -n "$fence" ]; then
            printf '%s\n' "$line" >> "$work/block"
            continue
        elif [[ $line == '```'* ]]; then
            fence=$number marked=''
            grep -q "$mark" <<< "$before" && marked=1
            : > "$work/block"
        elif grep -q "$mark" <<< "$line"; then
            line="Made by \`tools/transcripts.sh\`, commit $commit:"
        fi
        [ -z "$line" ] || before=$line
        printf '%s\n' "$line"
    done < <(cat "$1"; [ -z "$(tail -c 1 "$1")" ] || echo)
}

bad=''
for path in "$top"/README.md "$top"/docs/*.md; do
    grep -q '^\$ ' "$path" || continue
    document "$path" > "$work/new.md"
    [ "$mode" = check ] || cp "$work/new.md" "$path"
done
[ -z "$bad" ]
