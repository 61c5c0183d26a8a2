# lost.sh - for tests in which something happens to one rank of a job in the background. Needs $work,
# and `trap clean EXIT`.
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
    sleep 0.6 # the hearts have told of a step
}

running() # running PID...: those that have not ended
{
    local pid state
    for pid; do
        state=$(sed 's/.*) \(.\).*/\1/' "/proc/$pid/stat" 2> /dev/null) || continue
        [ "$state" = Z ] || [ "$state" = X ] || echo "$pid"
    done
}

clean() # nothing stays, however the test ended
{
    local pid
    for pid in $(running $launcher "${pids[@]}"); do kill -KILL "$pid" 2> /dev/null || true; done
    rm -rf "$work"
}

# ends WHAT MILLISECONDS PID...: they have all ended that long after $since.
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
