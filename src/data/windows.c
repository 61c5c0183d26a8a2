/* windows.c - cuts text into windows, packs examples into windows by best fit. */
#include "data/windows.h"

#include "base/alloc.h"

#include <string.h>

/* More open windows leave less padding. */
#define OPEN_WINDOWS 64
#define OPEN_TOKENS ((int64_t)1 << 22) /* in all of them: 16 MiB */

/* A window that is not full yet. */
struct open {
    uint32_t *token;
    size_t room; /* capacity of `token` */
    int64_t size;
};

struct hil_windows {
    hil_cache_writer *writer;
    int64_t seq;
    uint32_t pad;
    struct open text;
    struct open open[OPEN_WINDOWS]; /* with examples; the oldest first */
    int count, most;
    hil_packing packing;
};

hil_status hil_windows_create(hil_windows **out, hil_cache_writer *writer, int64_t seq, int64_t pad)
{
    hil_windows *w;
    HIL_TRY(HIL_ALLOC(1, &w));
    w->writer = writer;
    w->seq = seq;
    w->pad = pad >= 0 ? (uint32_t)pad : 0;
    int64_t most = OPEN_TOKENS / seq;
    w->most = most < 1 ? 1 : most < OPEN_WINDOWS ? (int)most : OPEN_WINDOWS;
    *out = w;
    return HIL_OK;
}

void hil_windows_destroy(hil_windows *w)
{
    if (!w) return;
    for (int i = 0; i < OPEN_WINDOWS; ++i) hil_free(w->open[i].token);
    hil_free(w->text.token);
    hil_free(w);
}

hil_status hil_windows_text(hil_windows *w, uint32_t token)
{
    struct open *text = &w->text;
    if ((size_t)text->size == text->room)
        HIL_TRY(HIL_GROW(&text->token, &text->room, text->size + 1));
    text->token[text->size++] = token;
    if (text->size < w->seq) return HIL_OK;
    text->size = 0;
    return hil_cache_writer_add(w->writer, text->token, w->seq);
}

/* Writes an open window. Its padding is a document of its own, without loss. */
static hil_status close_window(hil_windows *w, int at)
{
    HIL_TRY(HIL_GROW(&w->open[at].token, &w->open[at].room, w->seq));
    struct open closed = w->open[at];
    for (int64_t i = closed.size; i < w->seq; ++i)
        closed.token[i] = w->pad | HIL_MARK_NO_LOSS | (i == closed.size ? HIL_MARK_START : 0);
    HIL_TRY(hil_cache_writer_add(w->writer, closed.token, w->seq));
    w->packing.padding += w->seq - closed.size;
    ++w->packing.windows;
    --w->count;
    memmove(&w->open[at], &w->open[at + 1], (size_t)(w->count - at) * sizeof closed);
    closed.size = 0;
    w->open[w->count] = closed; /* the next window reuses its memory */
    return HIL_OK;
}

/* The fullest open window with room for `size` tokens; -1: none. */
static int fullest(const hil_windows *w, int64_t size)
{
    int best = -1;
    for (int i = 0; i < w->count; ++i) {
        if (w->open[i].size > w->seq - size) continue;
        if (best < 0 || w->open[i].size > w->open[best].size) best = i;
    }
    return best;
}

/* Tokens that follow each other. */
typedef struct run {
    const uint32_t *token;
    int64_t size;
} run;

/* Appends both runs to the window that fits best. */
static hil_status place(hil_windows *w, const run each[2])
{
    int64_t size = each[0].size + each[1].size;
    int at = fullest(w, size);
    if (at < 0) {
        if (w->count == w->most) HIL_TRY(close_window(w, fullest(w, 0)));
        at = w->count++;
    }
    struct open *to = &w->open[at];
    HIL_TRY(HIL_GROW(&to->token, &to->room, to->size + size));
    for (int i = 0; i < 2; ++i) {
        if (each[i].size)
            memcpy(to->token + to->size, each[i].token, (size_t)each[i].size * sizeof(uint32_t));
        to->size += each[i].size;
    }
    return to->size == w->seq ? close_window(w, at) : HIL_OK;
}

static int64_t count_learned(const run *r)
{
    int64_t learned = 0;
    for (int64_t i = 0; i < r->size; ++i) learned += !(r->token[i] & HIL_MARK_NO_LOSS);
    return learned;
}

/* Counts an example of which `size` tokens were given and `kept` fit; false: it is left out. */
static bool count_example(hil_windows *w, int64_t size, int64_t kept, int64_t learned)
{
    hil_packing *p = &w->packing;
    p->seq = w->seq;
    ++p->examples;
    if (!learned) {
        ++p->left_out;
        return false;
    }
    p->learned += learned;
    p->cut += size > kept;
    p->cut_tokens += size - kept;
    return true;
}

hil_status hil_windows_example(hil_windows *w, const uint32_t *token, size_t size)
{
    run all[2] = {{token, (int64_t)size < w->seq ? (int64_t)size : w->seq}};
    if (!count_example(w, (int64_t)size, all[0].size, count_learned(all))) return HIL_OK;
    return place(w, all);
}

hil_status hil_windows_pair(hil_windows *w, const uint32_t *token, const size_t size[2])
{
    run each[2] = {{token, (int64_t)size[0]}, {token + size[0], (int64_t)size[1]}};
    int64_t given = each[0].size + each[1].size, half = w->seq / 2;
    int longer = each[1].size > each[0].size;
    if (given > w->seq) {
        run *shorter = &each[!longer];
        if (shorter->size > half) shorter->size = half;
        each[longer].size = w->seq - shorter->size;
    }
    int64_t learned[2] = {count_learned(&each[0]), count_learned(&each[1])};
    int64_t kept = each[0].size + each[1].size;
    bool both = learned[0] && learned[1];
    if (!count_example(w, given, kept, both ? learned[0] + learned[1] : 0)) return HIL_OK;
    return place(w, each);
}

hil_status hil_windows_judged(hil_windows *w, const uint32_t *token, size_t size, bool good)
{
    const uint32_t blank = w->pad | HIL_MARK_NO_LOSS | HIL_MARK_START;
    int64_t most = w->seq - 1, kept = (int64_t)size < most ? (int64_t)size : most;
    const run own = {token, kept}, other = {&blank, 1};
    const run each[2] = {good ? own : other, good ? other : own};
    if (!count_example(w, (int64_t)size, kept, count_learned(&own))) return HIL_OK;
    return place(w, each);
}

hil_status hil_windows_end(hil_windows *w, hil_packing *packing)
{
    while (w->count) HIL_TRY(close_window(w, 0));
    HIL_TRY(hil_cache_writer_add(w->writer, w->text.token, w->text.size));
    *packing = w->packing;
    return HIL_OK;
}
