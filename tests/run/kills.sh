# kills.sh - for tests that kill runs repeatedly: the uninterrupted run, and what must hold after
# every kill. Needs $ranks (0: no mpirun) and cli/lib.sh.
. "$TESTS/running.sh"
seed=${SEED:-20240607}
RANDOM=$seed
kills=0 finished=0 saves=0
model=$TESTS/golden/models/qwen3
options=(--model "$model" --data "$model/tokens.npy" --eval-fraction 0.3 --eval-every 4 --seq 16
    --batch 12 --micro-batch 2 --steps 24 --keep 1 --lr 1e-3 --threads 1)
# Every second run has its states on disk: no placement changes a number.
spilled=(--device-memory 300K --host-memory $((200 * (ranks > 1 ? ranks : 1)))K --disk "$work/swap")
mkdir "$work/swap"

# numbers FOLDER: metrics without times and without the numbers that depend on placement
numbers() { sed 's/, "seconds".*//' "$1/metrics.jsonl"; }

launch() # launch ARGUMENTS...: in place of this shell
{
    [ "$ranks" = 0 ] || exec mpirun -n "$ranks" "$HILBERT" "$@"
    exec "$HILBERT" "$@"
}

same() # $work/run is what nobody disturbed
{
    cmp -s "$work/model.safetensors" "$work/run/model.safetensors" || die "other weights: $1"
    numbers "$work/run" | cmp -s - "$work/numbers" ||
        die "other metrics: $1: $(numbers "$work/run" | diff - "$work/numbers")"
    [ -z "$(find "$work/run" -name '*tmp*')" ] || die "left: $(find "$work/run" -name '*tmp*')"
    [ "$(ls "$work/run/checkpoints")" = "latest
step-24" ] || die "checkpoints: $(ls "$work/run/checkpoints")"
}

undisturbed() # sets $took, in milliseconds
{
    local began
    began=$(date +%s%N)
    (launch train "${options[@]}" --save-every 1 --out "$work/run") 2>"$work/err" </dev/null ||
        die "the first run: $(cat "$work/err")"
    took=$((($(date +%s%N) - began) / 1000000))
    cp "$work/run/model.safetensors" "$work/"
    numbers "$work/run" >"$work/numbers"
    rm -rf "$work/run"
}

children() { cat /proc/"$1"/task/*/children 2>/dev/null; }

victims() # the process, or of a job: one rank, mpirun, or all of them
{
    local all=($(children "$pid")) # ranks, and nothing else
    [ "$ranks" != 0 ] || { echo "$pid" && return; }
    case $((RANDOM % 4)) in
    0 | 1) echo "${all[RANDOM % (${#all[@]} ? ${#all[@]} : 1)]:-$pid}" ;;
    2) echo "$pid" ;;
    3) echo "$pid ${all[*]}" ;;
    esac
}

wait_to_kill() # some time of a whole run, or a moment after a save has begun
{
    local save=$((RANDOM % 2)) end=$((SECONDS + 5))
    local pause=$(((RANDOM * 32768 + RANDOM) % (took * (3 - save) / 4 + 1)))
    sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
    [ "$save" = 1 ] || return 0
    until compgen -G "$work/run/checkpoints/*.tmp-*" >/dev/null; do
        [ -n "$(running "$pid")" ] && [ "$SECONDS" -lt "$end" ] || return 0
    done
    saves=$((saves + 1))
    sleep "0.00$((RANDOM % 10))"
}

whole() # what a kill left: latest names a checkpoint that is, nothing is on the swap's drive
{
    [ -z "$(ls "$work/swap")" ] || die "left: $(ls "$work/swap")"
    [ -e "$work/run/checkpoints/latest" ] || return 0
    "$HILBERT" verify "$work/run" >"$work/verified" 2>&1 ||
        die "after a kill: $(cat "$work/verified")"
}

end_all() # all processes of the job are gone in time
{
    local end=$((SECONDS + 10)) left
    while left=$(running "${all[@]}") && [ -n "$left" ]; do
        [ "$SECONDS" -lt "$end" ] || {
            ps -o pid,stat,args -p "$(paste -sd, <<<"$left")" >&2
            kill -9 $left
            die "still there after 10 s, kill $kills (SEED=$seed)"
        }
        sleep 0.02
    done
}

kill_once()
{
    local placement=() pid code=0
    [ $((kills % 2)) = 0 ] || placement=("${spilled[@]}")
    (launch train "${options[@]}" --save-every $((1 + RANDOM % 2)) "${placement[@]}" \
        --out "$work/run" --resume) >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
    wait_to_kill
    local all=("$pid" $(children "$pid"))
    kill -9 $(victims) 2>/dev/null
    end_all
    wait "$pid" 2>/dev/null || code=$?
    ! grep '^hilbert: ' "$work/err" | grep -v ' is gone\| has not answered' ||
        die "kill $kills: $(cat "$work/err")"
    whole
    [ "$code" = 0 ] || { kills=$((kills + 1)) && return; }
    same "after $kills kills"
    finished=$((finished + 1))
    rm -rf "$work/run"
}

kill_many() # kill_many COUNT
{
    undisturbed
    while [ "$kills" -lt "$1" ]; do kill_once; done
    (launch train "${options[@]}" --save-every 1 --out "$work/run" --resume) 2>"$work/err" \
        </dev/null || die "the last run: $(cat "$work/err")"
    same "at the end"
    echo "$kills kills, $saves of them in a save; $finished runs ended in between (SEED=$seed)"
}
