# hilbert bench io: the table, the JSON object, the comparison with fio; no file is left.
set -u
. "$TESTS/cli/lib.sh"

mkdir "$work/drive" "$work/none" "$work/fake"
number() { # number KEY: the first value with that name
    grep -oE "\"$1\": [^,}]*" "$work/out" | head -n 1 | cut -d ' ' -f 2
}
positive() { awk -v x="$1" 'BEGIN { exit !(x + 0 > 0) }' || die "$2 is '$1'"; }

# Without fio.
PATH=$work/none run 0 bench io --path "$work/drive" --size 1M --json --io threads
grep -q '"engine": "threads"' "$work/out" || die "not the engine that was asked for"
grep -q '"read_ratio_to_fio": null, "write_ratio_to_fio": null' "$work/out" || die "ratio without fio"
[ "$(grep -o '"fio_read_gbps": null' "$work/out" | wc -l)" = 12 ] || die "fio in the grid"
PATH=$work/none run 0 bench io --path "$work/drive" --size 1M
grep -q '^fio is not installed' "$work/out" || die "says nothing about fio"
[ "$(grep -cE '^ +[0-9.]+ [KM]iB +[0-9]+  +[0-9.]+ +- +-  +[0-9.]+ +- +-$' "$work/out")" = 12 ] ||
    die "not a table: $(cat "$work/out")"

# With a fake fio of known speed that records its arguments.
cat >"$work/fake/fio" <<END
#!/bin/bash
echo "\$*" >>"$work/asked"
for word; do
    case \$word in
    --filename=*) [ -e "\${word#*=}" ] || exit 1 ;;
    --ioengine=io_uring) exit 1 ;;
    esac
done
echo 'fio: a note'
echo '{"jobs": [{"read": {"bw_bytes": 2000000000}, "write": {"bw_bytes": 500000000}}]}'
END
chmod +x "$work/fake/fio"
PATH=$work/fake:$PATH run 0 bench io --path "$work/drive" --size 1M --json
for key in read_gbps write_gbps read_ratio_to_fio write_ratio_to_fio; do
    positive "$(number $key)" $key
done
[ "$(grep -o '"fio_read_gbps": 2.0000, "fio_write_gbps": 0.5000' "$work/out" | wc -l)" = 12 ] ||
    die "fio's speed is not what it said"
ratio=$(number write_ratio_to_fio) best=$(number write_gbps)
awk -v r="$ratio" -v b="$best" 'BEGIN { exit !(r * 0.5 <= b * 1.001) }' ||
    die "a ratio of $ratio to 0.5 GB/s, but the best is $best"
grep -q -- '--rw=write --bs=4194304 --iodepth=32 --ioengine=libaio --size=1048576' "$work/asked" ||
    die "fio was not asked for the same: $(head -1 "$work/asked")"

[ -z "$(ls -A "$work/drive")" ] || die "a file was left behind"
fails 2 "bench needs --path and a thing to measure (io)" bench
fails 2 "bench measures io, not 'gpu'" bench gpu --path "$work/drive"
fails 2 "--size must be a size of 1M or more, not 5" bench io --path "$work/drive" --size 5
fails 2 "--io must be one of auto|uring|threads, not 'aio'" bench io --path "$work/drive" --io aio
fails 1 "cannot create a file in $work/missing: No such file" bench io --path "$work/missing"
