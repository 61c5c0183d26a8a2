#!/usr/bin/env bash
# demo.sh - trains a small Llama-style model, from a configuration alone, on hilbert's own sources
# and documentation, in half of the memory that its state needs: tools/demo.sh BUILD. About two
# minutes on two cores.
set -euo pipefail

cd "$(dirname "$0")/.."
hilbert=$1/hilbert
demo=$1/demo
say() { printf '\n%s\n' "$*"; }
type_out() { # type_out COMMAND...: the command as one would type it
    printf '$ %s\n' "${*@Q}" | sed "s/'\([A-Za-z0-9_./:=,-]*\)'/\1/g"
}
show() { # show COMMAND...: the same, and then what it does
    type_out "$@"
    "$@"
}

curve() { # curve METRICS: the mean loss of each tenth of the run as a bar
    awk -F '[:,]' '/"loss"/ { step[++n] = $2; loss[n] = $4 }
        END {
            for (part = 0; part < 10 && n >= 10; ++part) {
                first = int(n * part / 10) + 1; last = int(n * (part + 1) / 10); sum = 0
                for (i = first; i <= last; ++i) sum += loss[i]
                mean = sum / (last - first + 1); bar = ""
                for (i = 0; i < mean * 10; ++i) bar = bar "#"
                printf "%10d  %.3f  %s\n", step[last], mean, bar
            }
        }' "$1"
}

mkdir -p "$demo"
find src include docs README.md -name '*.[ch]' -o -name '*.md' |
    LC_ALL=C sort | xargs cat > "$demo/hilbert.txt"
cat > "$demo/config.json" << 'END'
{
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "vocab_size": 257,
  "hidden_size": 128,
  "intermediate_size": 352,
  "num_hidden_layers": 4,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "max_position_embeddings": 256,
  "rms_norm_eps": 1e-5,
  "rope_theta": 10000.0,
  "initializer_range": 0.02,
  "tie_word_embeddings": true,
  "hidden_act": "silu",
  "eos_token_id": 256
}
END

memory=(--device-memory 2500K --host-memory 2500K --disk "$demo:64M")
shape=(--seq 256 --batch 4 --micro-batch 1)

say "A Llama of 0.8 million parameters learns to write C from $(wc -c < "$demo/hilbert.txt") bytes:" \
    "hilbert's own sources and documentation. Its weights, gradients and optimizer state are 10.3 MiB;" \
    "it may use 2.4 MiB of device memory, 2.4 MiB of host memory, and a drive. The plan:"
show "$hilbert" plan --model "$demo/config.json" "${shape[@]}" "${memory[@]}" |
    sed '/^by the formulas/,$d'

train=(train --model "$demo/config.json" --data "$demo/hilbert.txt" --lr 4e-3 --warmup 50
    --overwrite "${shape[@]}")
say "Training:"
show "$hilbert" "${train[@]}" --out "$demo/model" --steps 500 --eval-fraction 0.02 "${memory[@]}"

say "The loss, from $demo/model/metrics.jsonl:"
curve "$demo/model/metrics.jsonl"

say "It began with every byte equally likely: a loss of ln 257 = 5.55. Now it continues a prompt:"
prompt='static hil_status '
command=("$hilbert" generate --model "$demo/model" --tokenizer bytes --prompt "$prompt" --max-tokens 200
    --temperature 0.8 --seed 2)
type_out "${command[@]}"
printf '%s' "$prompt"
"${command[@]}"

say "Budgets change no bit. 30 steps within these budgets, and 30 without any:"
show "$hilbert" "${train[@]}" --out "$demo/tight" --steps 30 --quiet "${memory[@]}"
show "$hilbert" "${train[@]}" --out "$demo/roomy" --steps 30 --quiet
(cd "$demo" && show cksum tight/model.safetensors roomy/model.safetensors)
cmp "$demo/tight/model.safetensors" "$demo/roomy/model.safetensors" ||
    { say "These should be the same: please report it."; exit 1; }
echo "The weights are the same, byte for byte."

say "The result is a Hugging Face folder: $demo/model. Next:"
cat << END
  $hilbert train --model DIR --data TEXT --out OUT    fine-tune a model folder of your own
  $hilbert train --trace FILE ...                     a timeline of what moved when, for Perfetto
  $hilbert train --help                               every option
END
