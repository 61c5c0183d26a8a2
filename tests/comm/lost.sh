# lost.sh - for tests that disturb one rank of a background job; its folder is $work.
. "$TESTS/running.sh"
work=$(mktemp -d)
trap clean EXIT
launcher= pids=()
seed=${SEED:-$(($(date +%s) / 86400))}
die() { echo "FAILED (SEED=$seed): $*" >&2; cat "$work/err" >&2; exit 1; }
now() { date +%s%3N; } # milliseconds

# begin COMMAND...: starts a launcher whose ranks are ranks_lost in $work/job; returns once all $ranks
# have done a few steps. Sets $launcher and the array $pids.
begin()
{
    rm -rf "$work/job"
    mkdir "$work/job"
    "$@" > "$work/out" 2> "$work/err" &
    launcher=$!
    local rank until=$(($(now) + 30000))
    pids=()
    for ((rank = 0; rank < ranks; ++rank)); do
        until [ "$(cat "$work/job/step.$rank" 2> /dev/null || echo 0)" -ge 5 ]; do
            [ "$(now)" -lt "$until" ] || die "rank $rank does not begin"
            kill -0 "$launcher" 2> /dev/null || die "the job ended early"
            sleep 0.05
        done
        pids+=("$(cat "$work/job/pid.$rank")")
    done
    sleep 0.6 # the heartbeats have sent a step
}

clean() # nothing stays, however the test ended
{
    local pid
    for pid in $(running $launcher "${pids[@]}"); do kill -KILL "$pid" 2> /dev/null || true; done
    rm -rf "$work"
}

# ends WHAT MILLISECONDS PID...: all processes have ended within that time after $since.
ends()
{
    local what=$1 limit=$2
    shift 2
    while [ -n "$(running "$@")" ]; do
        [ $(($(now) - since)) -lt "$limit" ] || {
            ps -o pid,stat,args -p "$(running "$@" | paste -sd,)" >&2
            die "$what: still there after $limit ms"
        }
        sleep 0.02
    done
    echo "$what: over after $(($(now) - since)) ms"
}

# A training run in $out, to be disturbed the same way.
model=$TESTS/golden/models/llama3
out=$work/run
options=(--model "$model" --data "$model/tokens.npy" --seq 32 --batch 12 --lr 1e-3 --threads 1
    --schedule constant --save-every 10 --keep 2 --out "$out")

steps() { wc -l < "$out/metrics.jsonl" 2> /dev/null || echo 0; }

begin_train() # begin_train LAUNCHER: a run in the background that has saved; sets $launcher and $pids
{
    rm -rf "$out"
    "$1" "$ranks" "$HILBERT" train "${options[@]}" --steps 1000000 > "$work/out" 2> "$work/err" &
    launcher=$!
    local until=$(($(now) + 30000)) pid rank
    until [ -s "$out/checkpoints/latest" ] && [ "$(steps)" -ge 25 ]; do
        [ "$(now)" -lt "$until" ] || die "the run does not begin"
        kill -0 "$launcher" 2> /dev/null || die "the run ended early"
        sleep 0.02
    done
    pids=()
    for pid in $(pgrep -f "hilbert train .*$out"); do
        rank=$(tr '\0' '\n' < "/proc/$pid/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
        [ -z "$rank" ] || pids[rank]=$pid
    done
    [ "${#pids[@]}" = "$ranks" ] || die "${#pids[@]} ranks run"
}

go_on() # go_on RANKS: so many take the run up and finish it
{
    local steps
    steps=$(($(steps) + 5))
    mpi "$1" "$HILBERT" train "${options[@]}" --steps "$steps" --resume 2> "$work/err" ||
        die "$1 ranks do not go on"
    [ "$(steps)" = "$steps" ] || die "$(steps) of $steps steps are in the metrics"
    [ -z "$(find "$out" -name '*tmp*')" ] || die "left: $(find "$out" -name '*tmp*')"
    "$HILBERT" verify "$out/checkpoints/step-$steps" > "$work/out" || die "the checkpoint is damaged"
}
