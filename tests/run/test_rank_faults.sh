#!/usr/bin/env bash
# test_rank_faults.sh - faults on one rank in every phase of a training run: the job ends in time, one
# line says what happened and where, nothing is left behind, and --resume gives the bits of an
# uninterrupted run; with another number of ranks, its losses.
# soak: --full
set -euo pipefail
[ "${HILBERT:-}" ] && [ -x "$HILBERT" ] || { echo "no program"; exit 77; }
. "$TESTS/mpi.sh"
. "$TESTS/comm/lost.sh"
. "$TESTS/rank_args.sh"
export XDG_CACHE_HOME=$work/cache FAULT_HELD=$work/held
export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
RANDOM=$seed
ranks=3 here="on $(hostname)"
out=$work/run
mkdir "$work/swap" "$work/bin"
cp -r "$TESTS/golden/models/qwen3" "$work/model"
cp -r "$TESTS/golden/models/qwen3" "$work/other"
cp "$HILBERT" "$work/bin/hilbert" # without the module for MPI beside it
"$CC" -shared -fPIC "$TESTS/run/rank_fault.c" -o "$work/fault.so" -ldl -lpthread
options=(train --model "$work/model" --data "$work/model/tokens.npy" --eval-fraction 0.3 --seq 16
    --eval-every 4 --batch 12 --micro-batch 2 --steps 24 --save-every 3 --keep 2 --lr 1e-3
    --schedule constant --dtype fp32 --threads 1 --io threads --quiet)
spilled=(--device-memory 300K --host-memory 600K --disk "$work/swap")

slow="start_stopped" # waits for the limit of a minute
kinds=(start_killed start_ended start_option start_module start_seed start_weights start_data
    start_model start_drive start_descriptors load_killed load_stopped step_killed step_first_killed
    step_stopped step_first_stopped step_terminated step_crashed save_killed save_stopped save_full
    save_unsynced eval_killed export_killed export_other_killed export_full swap_corrupted swap_full
    resume_unreadable mpirun_killed mpirun_terminated "$slow")

numbers() { sed 's/, "seconds".*//' "$1/metrics.jsonl"; }
losses() { sed -n 's/.*"loss": \([0-9.e+-]*\),.*/\1/p' "$1/metrics.jsonl"; }

launch() # in the background; sets $launcher and, as they start, $pids
{
    rm -f "$work"/pid.* "$work/held" "$work/held.go"
    MPI_SECONDS=100 mpi "$ranks" "$work/rank" >"$work/out" 2>"$work/err" &
    launcher=$!
    local rank
    pids=()
    for ((rank = 0; rank < ranks; ++rank)); do
        await "$work/pid.$rank"
        pids+=("$(cat "$work/pid.$rank")")
    done
}

await() # await FILE
{
    local until=$(($(now) + 30000))
    until [ -s "$1" ] || { [ "$1" = "$work/held" ] && [ -e "$1" ]; }; do
        [ "$(now)" -lt "$until" ] || die "$kind: no $1"
        [ -n "$(running "$launcher")" ] || die "$kind: the job ended early"
        sleep 0.02
    done
}

strike() # strike RANK CALL WORDS N OFFSET ERRNO: see rank_fault.c
{
    local rank=$1
    shift
    before "$rank" "export LD_PRELOAD=$work/fault.so FAULT='$*'"
}

hold() { strike "$1" "$2" "$3" "$4" "${5:-0}" 0; } # that rank waits there

over() # over WORDS [MILLISECONDS]: the job ends in time, with one line of hilbert that has them
{
    ends "$kind, rank $victim" "${2:-10000}" "$launcher" "${pids[@]}"
    code=0
    wait "$launcher" || code=$?
    [ "$code" != 0 ] || die "$kind: the job came to its end"
    # A stopped rank may wake up for the SIGTERM of mpirun, which ends the job.
    grep '^hilbert: ' "$work/err" | grep -v ' finishing this step ' >"$work/lines" || true
    [ "$(wc -l <"$work/lines")" = 1 ] || die "$kind: not one line"
    grep -qE -- "^hilbert: $1" "$work/lines" || die "$kind: expected: $1"
    left
}

silent() # the launcher speaks, or nobody is there who could
{
    ends "$kind, rank $victim" 10000 "$launcher" "${pids[@]}"
    wait "$launcher" && die "$kind: the job came to its end"
    left
}

left() # nothing stays: no process, no swap file, no damaged checkpoint
{
    [ -z "$(ls "$work/swap")" ] || die "$kind: left $(ls "$work/swap")"
    local others
    others=$(pgrep -f -- "--out $out" || true)
    [ -z "$others" ] || die "$kind: still there: $others"
    [ ! -e "$out/checkpoints/latest" ] || "$HILBERT" verify "$out" >"$work/verified" 2>&1 ||
        die "$kind: $(cat "$work/verified")"
}

refused() # like `over`, and the run has not begun
{
    over "$@"
    [ ! -e "$out" ] || die "$kind: a folder is left"
}

same_losses() # within the rounding of another order of sums
{
    paste <(losses "$1") "$work/losses" | awk '
        { d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > 2e-5) exit 1; ++n } END { exit n != 24 }' ||
        die "$kind: other losses on $2 ranks: $(losses "$1" | tr '\n' ' ')"
}

go_on() # the same number of ranks gives the same bits; another one, nearly the same losses
{
    rm -rf "$out.other"
    [ ! -e "$out" ] || cp -r "$out" "$out.other"
    args all "${options[@]}" --out "$out" --resume
    mpi "$ranks" "$work/rank" 2>"$work/err" || die "$kind: does not go on"
    cmp "$out/model.safetensors" "$work/model.safetensors" || die "$kind: other weights"
    numbers "$out" | cmp - "$work/numbers" || die "$kind: other metrics"
    [ -z "$(find "$out" -name '*tmp*')" ] || die "$kind: left $(find "$out" -name '*tmp*')"
    [ "$full" = 1 ] || return 0
    local others=$((1 + RANDOM % 2))
    [ "$others" = 1 ] || others=4
    args all "${options[@]}" --out "$out.other" --resume
    mpi "$others" "$work/rank" 2>"$work/err" || die "$kind: does not go on with $others ranks"
    same_losses "$out.other" "$others"
}

gone="rank RANK $here is gone: it was killed or it crashed; its last word: "
silence="rank RANK $here has not answered for [5-8] s: .*; its last word: "

lose() # lose SIGNAL RANK [DOING]: and the line that names it and what it did
{
    local words=$gone
    [ "$1" != STOP ] || words=$silence
    await "$work/held"
    sleep 0.6 # the heartbeats have sent its activity
    since=$(now)
    kill "-$1" "${pids[$2]}"
    over "${words//RANK/$2}${3:-}"
}

broken() # broken RANK WORDS: that rank says itself what failed
{
    local name="rank $1 $here: "
    [ "$1" != 0 ] || name="($name)?"
    since=$(now)
    over "$name$2"
}

# Before MPI is up.
start_killed() { before "$victim" 'kill -KILL $$'; launch; since=$(now); silent; }
start_ended() { before "$victim" 'exit 7'; launch; since=$(now); silent; }
start_stopped()
{
    before "$victim" 'kill -STOP $$'
    launch
    since=$(now)
    # A stopped rank 0 prints nothing: one of the others does, or both before they are ended.
    [ "$victim" != 0 ] || victim=1
    over "(rank [0-9]*: )?the 3 ranks are not connected after 60 s" 75000
}
start_option()
{
    args "$victim" "${options[@]}" --out "$out" --no-such-option
    launch
    since=$(now)
    refused "rank $victim $here: unknown option --no-such-option"
}
start_module()
{
    victim=$((1 + victim % 2))
    before "$victim" "program=$work/bin/hilbert"
    launch
    since=$(now)
    refused "rank $victim: 3 ranks were started, but this hilbert was built without MPI"
}
differs() # differs WORDS: on the victim, or on all others if that is rank 0
{
    launch
    since=$(now)
    refused "rank $((victim ? victim : 1)) $here: $1 here, but .* on rank 0: "
}
start_seed() { args "$victim" "${options[@]}" --out "$out" --seed 7; differs "--seed [0-9]*"; }
start_data()
{
    args "$victim" "${options[@]}" --out "$out" --data "$work/other/tokens.npy"
    differs "--data [^ ]*"
}
start_weights()
{
    local size
    size=$(stat -c %s "$work/other/model.safetensors")
    printf '\1\2\3' | dd of="$work/other/model.safetensors" bs=1 seek=$((size / 2 + RANDOM % 999)) \
        conv=notrunc status=none
    args "$victim" "${options[@]}" --out "$out" --model "$work/other"
    differs "the tensor [^ ]* of checksum .*"
}
start_model()
{
    args "$victim" "${options[@]}" --out "$out" --model "$work/missing"
    launch
    since=$(now)
    refused "rank $victim $here: $work/missing: no such model folder"
}
start_drive()
{
    args all "${options[@]}" --out "$out" "${spilled[@]}"
    args "$victim" "${options[@]}" --out "$out" "${spilled[@]:0:4}" --disk "$work/missing"
    launch
    since=$(now)
    refused "rank $victim $here: cannot use $work/missing: there is no such folder"
}
start_descriptors() # enough for MPI, not for the run
{
    strike "$victim" open / 1 0 24
    launch
    since=$(now)
    refused "rank $victim $here: .*Too many open files"
}

in_load() { hold "$victim" open /model/model.safetensors 2; launch; } # the first is compared
load_killed() { in_load; lose KILL "$victim" 'reading the weights'; }
load_stopped() { in_load; lose STOP "$victim" 'reading the weights'; }

in_step() { hold "$1" pread "$out/cache/" $((20 + RANDOM % 60)); launch; }
step_killed() { in_step "$victim"; lose KILL "$victim"; }
step_first_killed() { victim=0; in_step 1; lose KILL 0; }
step_stopped() { in_step "$victim"; lose STOP "$victim"; }
step_first_stopped() { victim=0; in_step 2; lose STOP 0; }
step_crashed() { in_step "$victim"; lose SEGV "$victim"; }
step_terminated() # all ranks end the step and save
{
    in_step "$victim"
    await "$work/held"
    since=$(now)
    kill -TERM "${pids[$victim]}"
    touch "$work/held.go"
    ends "$kind, rank $victim" 10000 "$launcher" "${pids[@]}"
    code=0
    wait "$launcher" || code=$?
    [ "$code" = 143 ] || die "$kind: exit code $code"
    grep -q '^hilbert: stopped after step [0-9]*, saved' "$work/err" || die "$kind: nobody says so"
    left
}

in_save() { strike "$victim" "$1" "/step-$((3 + 3 * (RANDOM % 3))).tmp-" "$2" 0 "$3"; launch; }
save_killed() { in_save create 1 0; lose KILL "$victim"; }
save_stopped() { in_save create 1 0; lose STOP "$victim"; }
save_full() { in_save pwrite 1 28; broken "$victim" "cannot write .*: No space left on device"; }
save_unsynced() { in_save fsync 1 5; broken "$victim" "cannot sync .*: Input/output error"; }

# The windows that are held out are the last ones in the file of tokens.
eval_killed() { hold "$victim" pread "$out/cache/" 3 4200; launch; lose KILL "$victim" evaluating; }

in_export() { hold 0 create model.safetensors 1; launch; }
export_killed() { victim=0; in_export; lose KILL 0 'writing the model'; }
export_other_killed()
{
    victim=$((1 + victim % 2))
    in_export
    lose KILL "$victim" "waiting for the model's files"
}
export_full()
{
    victim=0
    strike 0 fsync model.safetensors 1 0 28
    launch
    broken 0 ".*: No space left on device"
}

swap_corrupted()
{
    args all "${options[@]}" --out "$out" "${spilled[@]}"
    in_step "$victim"
    await "$work/held"
    local entry size
    for entry in "/proc/${pids[$victim]}/fd"/*; do
        case $(readlink "$entry") in
        "$work/swap/"*)
            size=$(stat -L -c %s "$entry")
            head -c "$size" /dev/urandom | dd of="$entry" conv=notrunc status=none
            ;;
        esac
    done
    since=$(now)
    touch "$work/held.go"
    broken "$victim" "checksum error in .*: the drive returned other bytes than were written"
}
swap_full()
{
    args all "${options[@]}" --out "$out" "${spilled[@]}"
    strike "$victim" pwrite "$work/swap/" $((1 + RANDOM % 500)) 0 28
    launch
    broken "$victim" "cannot write .*: No space left on device"
}

resume_unreadable() # one rank cannot read the newest checkpoint: nobody takes it as whole
{
    args all "${options[@]}" --out "$out" --steps 12
    mpi "$ranks" "$work/rank" 2>"$work/err" || die "$kind: the run before"
    args all "${options[@]}" --out "$out" --resume
    strike "$victim" pread /step-12/ 1 0 5
    launch
    broken "$victim" ".*Input/output error"
}

mpirun_pid() { ps -o ppid= -p "${pids[0]}"; }
mpirun_killed()
{
    in_step "$victim"
    await "$work/held"
    since=$(now)
    kill -KILL $(mpirun_pid)
    silent
}
mpirun_terminated()
{
    in_step "$victim"
    await "$work/held"
    since=$(now)
    kill -TERM $(mpirun_pid)
    silent
}

full=0
kind=undisturbed
args all "${options[@]}" --out "$out"
mpi "$ranks" "$work/rank" 2>"$work/err" || die "the undisturbed run"
mv "$out/model.safetensors" "$work/"
numbers "$out" >"$work/numbers"
losses "$out" >"$work/losses"

if [ "${1:-}" = --full ]; then
    full=1
    chosen=("${kinds[@]}")
elif [ $# -gt 0 ]; then # by name
    chosen=("$@")
else
    count=$((${#kinds[@]} - 1))
    chosen=("${kinds[seed % count]}" "${kinds[(seed + 9) % count]}" "${kinds[(seed + 20) % count]}")
fi
for kind in "${chosen[@]}"; do
    rm -rf "$out"
    victim=$((RANDOM % ranks))
    args all "${options[@]}" --out "$out"
    "$kind"
    go_on
done
echo "${#chosen[@]} faults, 0 wrong bits (SEED=$seed)"
