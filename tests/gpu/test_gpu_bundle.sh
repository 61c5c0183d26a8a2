# The bundle on a machine with a GPU: in a bare environment it finds driver, cuBLAS and cuDNN, also in
# Python's packages, and trains on the GPU; without them it trains on the CPU. BUNDLE names an archive
# made elsewhere; by default the local build is packed.
set -euo pipefail

nvidia-smi -L 2> /dev/null | grep -q GPU || { echo "there is no GPU"; exit 77; }
[ -n "${BUNDLE:-}" ] || [ -f "$BUILD/hilbert_cuda.so" ] || { echo "this build has no CUDA"; exit 77; }
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
die() { echo "$*" >&2; exit 1; }
if [ -z "${BUNDLE:-}" ]; then
    XZ_OPT=-1 "$SOURCE/tools/bundle.sh" "$BUILD" "$temporary/out"
    BUNDLE=$(echo "$temporary"/out/*.tar.xz)
fi
mkdir "$temporary/my models"
tar xf "$BUNDLE" -C "$temporary/my models"
cd "$temporary/my models"
hilbert=$(echo "$PWD"/hilbert-*/bin/hilbert)
bare() { # python3 on PATH leads to its packages
    env -i HOME="$PWD" PATH="$PATH" ${LD_LIBRARY_PATH:+LD_LIBRARY_PATH="$LD_LIBRARY_PATH"} "$@"
}

ldd --version | head -n 1
bare "$hilbert" --version
. "$TESTS/llama_config.sh"
llama_config 257 256 512 2 4 2 256 '"rope_theta": 10000.0, "tie_word_embeddings": true, "eos_token_id": 256' \
    > config.json
run=(train --model config.json --data hilbert-*/docs/options.md --steps 20 --seq 256 --batch 8 --lr 1e-3)
last() { sed -nE 's/.* loss [0-9.]+ -> ([0-9.]+).*/\1/p' "$1"; } # last LOG: the loss at the end

for device in cuda auto cpu; do
    bare "$hilbert" "${run[@]}" --out "$device" --device "$device" > "$device.log" 2>&1 ||
        { cat "$device.log" >&2; die "it does not train with --device $device"; }
    grep -E '^20 steps|GPU|NVIDIA' "$device.log" | sed "s/^/$device: /"
done
cmp cuda/model.safetensors auto/model.safetensors || die "auto is not the GPU"
if cmp -s cuda/model.safetensors cpu/model.safetensors; then die "cuda has the CPU's bits"; fi
awk -v a="$(last cuda.log)" -v b="$(last cpu.log)" 'BEGIN { d = a - b; exit !(d < 0.02 && d > -0.02) }' ||
    die "the GPU ends at $(last cuda.log), the CPU at $(last cpu.log)"

CUDA_VISIBLE_DEVICES='' "$hilbert" "${run[@]}" --out hidden > hidden.log 2>&1 ||
    { cat hidden.log >&2; die "it does not train where no GPU is shown"; }
cmp hidden/model.safetensors cpu/model.safetensors || die "without a GPU it is not the CPU"
if CUDA_VISIBLE_DEVICES='' "$hilbert" "${run[@]}" --out none --device cuda > none.log 2>&1; then
    die "--device cuda trains where no GPU is shown"
fi
cat none.log
mv hilbert-*/lib/hilbert away
bare "$hilbert" "${run[@]}" --out alone > alone.log 2>&1 || { cat alone.log >&2; die "it needs its modules"; }
