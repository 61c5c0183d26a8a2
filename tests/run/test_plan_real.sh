# Configs of published models are planned: with their architecture and size, and of a folder with images a note
# that says what is left out. Skips where the shared collection is not there. Without --full all but the one with
# the most experts.
# soak: --full
set -eu
. "$TESTS/work.sh"

real=$SOURCE/../shared/data/real-model-folders
[ -d "$real" ] || { echo "no $real"; exit 77; }

check() { # check FOLDER WORDS NOTE
    env -u HOME -u XDG_CACHE_HOME "$HILBERT" plan --model "$real/$1" --device cpu --seq 256 --batch 1 \
        --micro-batch 1 --device-memory 60G --host-memory 60G --disk "$work:9000G" > "$work/plan" 2> "$work/log" ||
        die "$1: $(cat "$work/log")"
    grep -q "^$2 parameters" "$work/plan" || die "$1: $(head -1 "$work/plan"), not $2"
    if [ -n "${3:-}" ]; then
        grep -q "$3" "$work/log" || die "$1 says nothing of '$3': $(cat "$work/log")"
    else
        grep "text model" "$work/log" && die "$1 is a text model"
    fi
    echo "$1: planned"
}

check Avent-IQ+pythia-410m 'gpt_neox with 405.3M'
check Ibtasam-98+medgemma-27b-it 'gemma3_text with 27.0B' \
    'is a gemma3: only its text model (gemma3_text) is used, without vision'
check MiMiGame-1+Reflection-Llama-3.1-70B 'llama with 70.6B'
check PANDASANG1231+llama_3.2-3B-huggingface-shard0 'llama with 3.2B'
check YouZiSoftware+lzlv_70b_fp16_hf 'llama with 69.0B'
check YouriLalain+3PRYMMAL-PHI3-3B-SLERP 'phi3 with 3.8B'
check ananddhanabal+gemma 'gemma with 2.5B'
check fetchwiki+deepcogito-cogito-v1-preview-qwen-14B 'qwen2 with 14.8B'
check fetchwiki+mistralai-Devstral-Small-2507 'mistral with 23.6B'
check jeremieconte+granite-3.1-1b-a400m-instruct 'granitemoe with 1.3B'
check root-hypercube+qwen3-mlx 'qwen3 with 1.7B'
check tbressers+WizardLM-2-8x22B 'mixtral with 140.6B'
[ "${1:-}" = --full ] || exit 0
check bryce-hoehn+Qwen3.5-25B-REAP-A3B-Coding 'qwen3_5_moe_text with 25.1B'
