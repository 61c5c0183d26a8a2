# hosts.sh - two network namespaces as two machines with a link between them: hosts_up, then
# `hosts N COMMAND...` starts N ranks, the first half on hilbert-a and the rest on hilbert-b. After
# mpi.sh; `trap` must call hosts_down. Skips if namespaces are not allowed.
[ "$(id -u)" = 0 ] || { echo "only root may create network namespaces"; exit 77; }
command -v ip > /dev/null && command -v unshare > /dev/null || { echo "ip or unshare is missing"; exit 77; }

hosts_a=hil$$a hosts_b=hil$$b
hosts_net=10.211.7

hosts_up()
{
    ip netns add "$hosts_a" 2> /dev/null && ip netns add "$hosts_b" 2> /dev/null &&
        ip link add link0 netns "$hosts_a" type veth peer name link0 netns "$hosts_b" ||
        { echo "this system has no network namespaces"; exit 77; }
    local name number=1
    for name in "$hosts_a" "$hosts_b"; do
        ip -n "$name" addr add "$hosts_net.$number/24" dev link0
        ip -n "$name" link set lo up
        ip -n "$name" link set link0 up
        number=$((number + 1))
    done
    # mpirun calls this instead of ssh.
    cat > "$work/agent" << END
#!/bin/sh
shift
exec ip netns exec $hosts_b unshare -u sh -c "hostname hilbert-b; \$*"
END
    chmod +x "$work/agent"
}

hosts_inside() # the processes on both, launchers and all
{
    ip netns pids "$hosts_a"
    ip netns pids "$hosts_b"
} 2> /dev/null

hosts_down()
{
    local pid
    for pid in $(hosts_inside); do kill -KILL "$pid" 2> /dev/null || true; done
    ip netns del "$hosts_a" 2> /dev/null || true
    ip netns del "$hosts_b" 2> /dev/null || true
}

hosts()
{
    local ranks=$1 half=$((($1 + 1) / 2))
    shift
    OMPI_MCA_plm_rsh_agent=$work/agent \
        OMPI_MCA_btl=tcp,vader,self OMPI_MCA_btl_tcp_if_include=$hosts_net.0/24 \
        OMPI_MCA_oob_tcp_if_include=$hosts_net.0/24 \
        timeout -k 5 "${MPI_SECONDS:-120}" ip netns exec "$hosts_a" unshare -u \
        sh -c 'hostname hilbert-a; exec "$@"' sh \
        mpirun --host "$hosts_net.1:$half,$hosts_net.2:$half" -n "$ranks" "$@" < /dev/null
}
