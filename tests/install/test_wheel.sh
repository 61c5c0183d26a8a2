# The wheel of `make wheel`, installed by pip into an empty environment without a network: the command
# hilbert trains and generates, `import hilbert` works without PyTorch, and the same build gives the same bytes.
set -euo pipefail

[ "$(uname -m)" = x86_64 ] || { echo "the wheel is for x86-64"; exit 77; }
grep -q '^URING_FOUND:INTERNAL=1' "$BUILD/CMakeCache.txt" || { echo "this build has no liburing"; exit 77; }
python3 -c 'import venv, ensurepip' 2> /dev/null || { echo "no venv for python3"; exit 77; }
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
die() { echo "$*" >&2; exit 1; }

"$SOURCE/tools/wheel.sh" "$BUILD" "$temporary/dist"
wheel=$(echo "$temporary"/dist/hilbert-*-py3-none-manylinux_2_34_x86_64.whl)
[ -f "$wheel" ] || die "there is no wheel for manylinux"
[ "$(stat -c %s "$wheel")" -lt $((40 << 20)) ] || die "the wheel has more than 40 MiB"
cp "$wheel" "$temporary/first"
"$SOURCE/tools/wheel.sh" "$BUILD" "$temporary/dist" > "$temporary/log"
cmp "$wheel" "$temporary/first" || die "the same build gives other bytes"

cd "$temporary"
python3 -m venv empty
mkdir home
bare() { env -i HOME="$PWD/home" PATH=/usr/bin:/bin "$@"; }
bare empty/bin/pip install --quiet --no-index --no-deps --disable-pip-version-check "$wheel"
version=$(bare empty/bin/hilbert --version)
grep -q '^hilbert [0-9]' <<< "$version" || die "hilbert --version says: $version"
cat > check.py << 'END'
import os, subprocess, sys
import hilbert
assert "torch" not in sys.modules
version = subprocess.run([hilbert.program(), "--version"], capture_output=True, text=True, check=True).stdout
assert version.split()[1] == hilbert.version(), (version, hilbert.version())
try:
    hilbert.offload
    raise AssertionError("there is a PyTorch")
except ModuleNotFoundError as error:
    assert "pip install torch" in str(error), error
assert os.path.dirname(hilbert.program()) == os.path.dirname(hilbert.__file__)
END
bare empty/bin/python check.py || die "import hilbert fails"

. "$TESTS/llama_config.sh"
llama_config 257 32 64 2 4 2 64 '"rope_theta": 10000.0, "tie_word_embeddings": true, "eos_token_id": 256' > config.json
cp "$SOURCE/docs/memory.md" text
run=(train --model config.json --data text --steps 3 --seq 64 --batch 4 --lr 1e-3 --device cpu)
bare env PATH="$PWD/empty/bin:/usr/bin:/bin" hilbert "${run[@]}" --out model > log 2>&1 ||
    { cat log >&2; die "it does not train"; }
grep -q '^  hilbert generate --model model' log || die "it does not call itself as it was called: $(cat log)"
"$HILBERT" "${run[@]}" --out same > log 2>&1
cmp model/model.safetensors same/model.safetensors || die "it trains to other bits than the build"
bare empty/bin/hilbert generate --model model --tokenizer bytes --prompt a --max-tokens 4 --device cpu > log 2>&1 ||
    { cat log >&2; die "it does not generate"; }
bare empty/bin/hilbert plan --model config.json --cluster laptop > log 2>&1 ||
    { cat log >&2; die "it does not find the descriptions of clusters"; }
bare empty/bin/pip uninstall --quiet --yes hilbert
[ ! -e empty/bin/hilbert ] || die "uninstalling leaves the command"
