# Every golden model on the emulated GPU; without --full those whose operations are most special.
# soak: --full
set -u
. "$TESTS/cli/lib.sh"
HILBERT=$BUILD/emulated/hilbert jobs=1
[ -x "$HILBERT" ] || { echo "skipped: built without the emulated GPU"; exit 77; }
export LD_LIBRARY_PATH=$BUILD/emulated
. "$TESTS/gpu/models.sh"
models=(deepseek_v3 gemma2 gemma4 gpt_neox granitemoehybrid kimi_linear laguna
    lfm2_moe mimo_v2_flash olmo_hybrid phi3_long qwen3_5 qwen3_next)
[ "${1:-}" != --full ] || models=("$TESTS"/golden/models/*/)
check_goldens "${models[@]}"
