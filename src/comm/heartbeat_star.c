/* heartbeat_star.c - connects every rank's heartbeat to rank 0.

   [Note: star] Heartbeats have their own sockets, independent of the engine's network: the kernel
   closes a socket when its process dies, and MPI waiting for a dead rank cannot block a heartbeat.
   Rank 0 listens (on loopback only, if all ranks are on one machine) and sends its addresses and a
   secret by a gather. The others try one address after another until one answers with the second
   half of the secret: several machines may have the same private address. */
#include "comm/heartbeat_star.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESSES = 12, SECRET = 16 };
#define ANSWER_SECONDS 2.0
#define CONNECT_SECONDS 30.0 /* longer than all addresses take once */
#define ACCEPT_SECONDS 35.0

typedef struct card { /* what every rank sends to all others */
    char host[HIL_HOST_NAME];
    unsigned char ask[SECRET], answer[SECRET]; /* only rank 0 has these */
    struct in6_addr address[ADDRESSES];        /* rank 0's; IPv4 as mapped addresses */
    uint16_t addresses, port;                  /* port: network order */
} card;

typedef struct hello {
    unsigned char ask[SECRET];
    int32_t rank;
} hello;

typedef struct outcome {
    int32_t status;
    char text[300];
} outcome;

static struct sockaddr_in6 address_of(const struct in6_addr *address, uint16_t port)
{
    return (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = *address, .sin6_port = port};
}

static struct in6_addr mapped(struct in_addr address)
{
    struct in6_addr out = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(out.s6_addr + 12, &address, 4);
    return out;
}

static bool is_mapped(const struct in6_addr *address)
{
    return IN6_IS_ADDR_V4MAPPED(address);
}

/* IPv4 sockets on a machine without IPv6; otherwise IPv6 sockets, which reach both. */
static int open_socket(bool v6)
{
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int off = 0, on = 1;
    if (fd < 0) return -1;
    if (v6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static socklen_t plain_address(struct sockaddr_storage *out, const struct in6_addr *address,
                               uint16_t port)
{
    memset(out, 0, sizeof *out);
    if (!is_mapped(address)) {
        struct sockaddr_in6 v6 = address_of(address, port);
        memcpy(out, &v6, sizeof v6);
        return sizeof v6;
    }
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = port};
    memcpy(&v4.sin_addr, address->s6_addr + 12, 4);
    memcpy(out, &v4, sizeof v4);
    return sizeof v4;
}

static void add_address(card *mine, const struct ifaddrs *each, bool loopback)
{
    if (!each->ifa_addr || !(each->ifa_flags & IFF_UP) || mine->addresses == ADDRESSES ||
        !(each->ifa_flags & IFF_LOOPBACK) == loopback)
        return;
    struct in6_addr *out = &mine->address[mine->addresses];
    if (each->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, each->ifa_addr, sizeof v4);
        *out = mapped(v4.sin_addr);
    } else if (each->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, each->ifa_addr, sizeof v6);
        if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return;
        *out = v6.sin6_addr;
    } else {
        return;
    }
    ++mine->addresses;
}

/* Loopback first: ranks on the same machine connect at the first attempt. */
static hil_status list_addresses(card *mine)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return hil_fail(HIL_ERR_IO, "cannot list the network addresses: %s", strerror(errno));
    for (int loopback = 1; loopback >= 0; --loopback)
        for (struct ifaddrs *each = all; each; each = each->ifa_next)
            add_address(mine, each, loopback);
    freeifaddrs(all);
    return HIL_OK;
}

static hil_status listen_here(card *mine, bool one_machine, int size, int *out)
{
    struct sockaddr_storage address;
    const struct in6_addr any = mapped((struct in_addr){htonl(INADDR_ANY)});
    const struct in6_addr local = mapped((struct in_addr){htonl(INADDR_LOOPBACK)});
    bool v6 = !one_machine;
    int fd = open_socket(v6);
    if (fd < 0 && v6) fd = open_socket(v6 = false);
    socklen_t bytes = plain_address(&address, v6 ? &in6addr_any : one_machine ? &local : &any, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        int error = errno;
        if (fd >= 0) close(fd);
        return hil_fail(HIL_ERR_IO, "rank 0 cannot listen for the other ranks: %s",
                        strerror(error));
    }
    fcntl(fd, F_SETFL, O_NONBLOCK); /* a connection may be closed before it is accepted */
    mine->port = address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                              : ((struct sockaddr_in6 *)&address)->sin6_port;
    *out = fd;
    return HIL_OK;
}

/* Whether `fd` becomes ready for `events` in time. */
static bool ready(int fd, short events, double until)
{
    for (;;) {
        double left = until - hil_clock_now();
        struct pollfd one = {.fd = fd, .events = events};
        int got = poll(&one, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (got > 0) return true;
        if (got == 0 || errno != EINTR) return false;
    }
}

static bool receive(int fd, void *data, size_t bytes)
{
    double until = hil_clock_now() + ANSWER_SECONDS;
    for (size_t at = 0; at < bytes;) {
        if (!ready(fd, POLLIN, until)) return false;
        ssize_t got = recv(fd, (char *)data + at, bytes - at, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got > 0) at += (size_t)got;
    }
    return true;
}

static bool transmit(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes; /* the first bytes always fit */
}

/* Rank 0: accepts the next connection that sends the secret. */
static void accept_one(const card *mine, int listener, int *sockets, int size)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), on = 1;
    hello from;
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (receive(fd, &from, sizeof from) && memcmp(from.ask, mine->ask, SECRET) == 0 &&
        from.rank > 0 && from.rank < size && transmit(fd, mine->answer, SECRET)) {
        /* Replaces an earlier connection that timed out waiting for the answer. */
        if (sockets[from.rank] >= 0) close(sockets[from.rank]);
        sockets[from.rank] = fd;
    } else {
        close(fd);
    }
}

static int first_missing(const int *sockets, int size)
{
    int rank = 1;
    while (rank < size && sockets[rank] >= 0) ++rank;
    return rank;
}

static hil_status accept_all(hil_star *star, const card *mine, int listener, int size)
{
    double until = hil_clock_now() + ACCEPT_SECONDS;
    while (first_missing(star->socket, size) < size) {
        if (hil_clock_now() > until || !ready(listener, POLLIN, until)) {
            int rank = first_missing(star->socket, size);
            return hil_fail(HIL_ERR_IO, "rank %d on %s did not reach rank 0 on %s in %.0f s", rank,
                            star->host[rank], star->host[0], ACCEPT_SECONDS);
        }
        accept_one(mine, listener, star->socket, size);
    }
    return HIL_OK;
}

static int connect_to(const struct in6_addr *to, uint16_t port)
{
    struct sockaddr_storage address;
    socklen_t bytes = plain_address(&address, to, port);
    int fd = open_socket(!is_mapped(to)), error = 0;
    socklen_t size = sizeof error;
    if (fd < 0) return -1;
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    bool done = connect(fd, (struct sockaddr *)&address, bytes) == 0;
    if (!done && errno == EINPROGRESS && ready(fd, POLLOUT, hil_clock_now() + ANSWER_SECONDS))
        done = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    if (done) return fd;
    if (error) errno = error;
    error = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    errno = error;
    return -1;
}

static int meet(const card *root, const struct in6_addr *to, int rank)
{
    unsigned char answer[SECRET];
    hello mine = {.rank = rank};
    memcpy(mine.ask, root->ask, SECRET);
    int fd = connect_to(to, root->port);
    if (fd < 0) return -1;
    if (transmit(fd, &mine, sizeof mine) && receive(fd, answer, SECRET) &&
        memcmp(answer, root->answer, SECRET) == 0)
        return fd;
    close(fd);
    errno = ETIMEDOUT;
    return -1;
}

static hil_status connect_root(hil_star *star, const card *root, int rank)
{
    double until = hil_clock_now() + CONNECT_SECONDS;
    int error = ENETUNREACH;
    do {
        for (int i = 0; i < root->addresses; ++i) {
            star->socket[0] = meet(root, &root->address[i], rank);
            if (star->socket[0] >= 0) return HIL_OK;
            error = errno;
        }
        poll(NULL, 0, 100);
    } while (hil_clock_now() < until);
    char tried[200] = "";
    for (int i = 0; i < root->addresses; ++i) {
        char name[INET6_ADDRSTRLEN + 2] = "", *v4;
        if (!inet_ntop(AF_INET6, &root->address[i], name, INET6_ADDRSTRLEN)) continue;
        v4 = is_mapped(&root->address[i]) ? strrchr(name, ':') + 1 : name;
        size_t used = strlen(tried);
        snprintf(tried + used, sizeof tried - used, "%s%s", used ? ", " : "", v4);
    }
    return hil_fail(HIL_ERR_IO,
                    "rank %d on %s cannot connect to rank 0 on %s (%s, TCP): %s; ranks watch each "
                    "other over such connections",
                    rank, star->host[rank], star->host[0], tried, strerror(error));
}

/* If a rank failed, all fail. Messages of other ranks are preferred to rank 0's. */
static hil_status share_outcome(hil_comm *comm, hil_status status)
{
    outcome *all, mine = {.status = (int32_t)status};
    HIL_TRY(HIL_ALLOC(hil_comm_size(comm), &all));
    if (status != HIL_OK) snprintf(mine.text, sizeof mine.text, "%s", hil_status_message());
    status = hil_comm_gather(comm, HIL_CHANNEL_CONTROL, &mine, all, sizeof mine);
    for (int i = 1; i <= hil_comm_size(comm) && status == HIL_OK; ++i) {
        const outcome *each = &all[i % hil_comm_size(comm)];
        if (each->status != HIL_OK)
            status = hil_fail((hil_status)each->status, "%.*s", (int)sizeof each->text, each->text);
    }
    hil_free(all);
    return status;
}

static hil_status prepare(card *mine, const hil_comm *comm, int *listener)
{
    if (gethostname(mine->host, HIL_HOST_NAME) != 0) snprintf(mine->host, HIL_HOST_NAME, "?");
    mine->host[HIL_HOST_NAME - 1] = 0;
    if (hil_comm_rank(comm) != 0) return HIL_OK;
    if (getrandom(mine->ask, SECRET, 0) != SECRET || getrandom(mine->answer, SECRET, 0) != SECRET)
        return hil_fail(HIL_ERR_IO, "the system has no random numbers: %s", strerror(errno));
    HIL_TRY(list_addresses(mine));
    return listen_here(mine, hil_comm_local_size(comm) == hil_comm_size(comm), hil_comm_size(comm),
                       listener);
}

hil_status hil_star_connect(hil_star *star, hil_comm *comm)
{
    int listener = -1, size = hil_comm_size(comm), sockets = hil_comm_rank(comm) == 0 ? size : 1;
    card mine = {0}, *all = NULL;
    hil_status status;
    *star = (hil_star){0};
    HIL_TRY_DONE(HIL_ALLOC(size, &all));
    HIL_TRY_DONE(HIL_ALLOC(size, &star->host));
    HIL_TRY_DONE(HIL_ALLOC(sockets, &star->socket));
    for (int i = 0; i < sockets; ++i) star->socket[i] = -1;
    hil_status ready_here = prepare(&mine, comm, &listener);
    HIL_TRY_DONE(share_outcome(comm, ready_here));
    HIL_TRY_DONE(hil_comm_gather(comm, HIL_CHANNEL_CONTROL, &mine, all, sizeof mine));
    for (int i = 0; i < size; ++i) memcpy(star->host[i], all[i].host, HIL_HOST_NAME);
    ready_here = hil_comm_rank(comm) == 0 ? accept_all(star, &mine, listener, size)
                                          : connect_root(star, &all[0], hil_comm_rank(comm));
    status = share_outcome(comm, ready_here);
done:
    if (listener >= 0) close(listener);
    hil_free(all);
    return status;
}

void hil_star_free(hil_star *star, int size)
{
    for (int i = 0; star->socket && i < size; ++i)
        if (star->socket[i] >= 0) close(star->socket[i]);
    hil_free(star->socket);
    hil_free(star->host);
    *star = (hil_star){0};
}
