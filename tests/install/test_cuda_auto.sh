# `make` builds the GPU code if this machine has a GPU (here a fake nvidia-smi) and the toolkit. Only
# configures.
set -u
unset CUDAARCHS # which would name other architectures than the GPU here
. "$TESTS/work.sh"
# says WORDS OPTIONS...: the line about CUDA has these words
says() {
    local words=$1 line
    shift
    rm -rf "$work/build"
    line=$(PATH=$work/bin:$PATH cmake -S "$SOURCE" -B "$work/build" "$@" 2>&1 | grep 'CUDA: ')
    case $line in *"$words"*) ;; *) die "'$words' is not in '$line'" ;; esac
}
gpu() { # gpu LINES: what nvidia-smi says; nothing: it fails
    mkdir -p "$work/bin"
    if [ -n "$1" ]; then echo "printf '$1'"; else echo 'exit 9'; fi |
        sed '1i #!/bin/sh' > "$work/bin/nvidia-smi"
    chmod +x "$work/bin/nvidia-smi"
}

gpu ''
says 'left out, by request' -DHIL_CUDA=OFF
says 'left out, nvcc was not found, and no GPU' -DHIL_NVCC=OFF
gpu '9.0\n8.9\n9.0\n'
says "left out, nvcc was not found: to use this machine's GPU" -DHIL_NVCC=OFF

gpu ''
(says 'left out, no GPU here (nvidia-smi names none): make CUDA=ON') 2> /dev/null ||
    { says 'was not found, and no GPU'; echo "no CUDA toolkit here: the rest is left out"; exit 0; }
gpu '9.0\n8.9\n9.0\n'
says 'for 90 89 and PTX'
