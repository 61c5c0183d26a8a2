# rank_args.sh - for tests whose ranks are started differently: mpi N "$work/rank" runs the program on
# every rank with the arguments that `args` gave. Needs $work and $HILBERT.
cat >"$work/rank" <<'END'
#!/usr/bin/env bash
folder=$(dirname "$0")
rank=$OMPI_COMM_WORLD_RANK
echo $$ >"$folder/pid.$rank" # the program's, too
program=$HILBERT
[ ! -e "$folder/before.$rank" ] || . "$folder/before.$rank"
file=$folder/args.$rank
[ -e "$file" ] || file=$folder/args
mapfile -t args <"$file"
exec "$program" "${args[@]}"
END
chmod +x "$work/rank"

args() # args RANK|all ARGUMENTS...: `all` makes all ranks the same again
{
    local file=$work/args.$1
    [ "$1" != all ] || { rm -f "$work"/args.* "$work"/before.* && file=$work/args; }
    shift
    printf '%s\n' "$@" >"$file"
}

before() # before RANK COMMANDS: run on that rank before the program, $program
{
    echo "$2" >"$work/before.$1"
}
