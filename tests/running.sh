# running.sh - lists which of some processes still run; a zombie does not count.
running() # running PID...: those that have not ended
{
    local pid state
    for pid; do
        state=$(sed 's/.*) \(.\).*/\1/' "/proc/$pid/stat" 2>/dev/null) || continue
        [ "$state" = Z ] || [ "$state" = X ] || echo "$pid"
    done
}
