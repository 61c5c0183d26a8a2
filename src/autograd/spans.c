/* spans.c - records spans of computing, with the clock of the links or the device's time stamps. */
#include "autograd/spans.h"

#include "base/alloc.h"

#include <stdio.h>

/* Spans per pass on a device; later ones are not recorded. */
#define SPANS_MOST 8192

static void add(const hil_spans *s, const hil_span *span, double began, double ended)
{
    char name[64];
    snprintf(name, sizeof name, "%s %s", span->segment, span->what);
    hil_timeline_add(s->timeline, HIL_TRACK_COMPUTE, name, began, ended, 0);
}

static hil_status stamp(hil_spans *s, int i)
{
    return s->device->queue->stamp(s->device, HIL_STREAM_COMPUTE, &s->stamp[2 * s->count + i]);
}

hil_status hil_spans_begin(hil_spans *s)
{
    if (!s->timeline) return HIL_OK;
    if (!s->device) {
        s->began = hil_links_now(s->links);
        return HIL_OK;
    }
    if (!s->span) HIL_TRY(HIL_ALLOC(SPANS_MOST, &s->span));
    if (!s->stamp)
        HIL_TRY(s->device->heap->share(s->device, 2 * SPANS_MOST * sizeof *s->stamp,
                                       (void **)&s->stamp));
    return s->count < SPANS_MOST ? stamp(s, 0) : HIL_OK;
}

hil_status hil_spans_end(hil_spans *s, const char *segment, const char *what)
{
    const hil_span span = {segment, what};
    if (!s->timeline) return HIL_OK;
    if (!s->device) {
        add(s, &span, s->began, hil_links_now(s->links));
        return HIL_OK;
    }
    if (s->count == SPANS_MOST) return HIL_OK;
    HIL_TRY(stamp(s, 1));
    s->span[s->count++] = span;
    return HIL_OK;
}

double hil_spans_operation_begin(const hil_spans *s)
{
    return s->timeline && !s->device ? hil_links_now(s->links) : 0;
}

void hil_spans_operation_end(const hil_spans *s, const char *name, bool backward, double began)
{
    char words[64];
    if (!s->timeline || s->device) return;
    snprintf(words, sizeof words, "%s%s", name, backward ? " backward" : "");
    hil_timeline_add(s->timeline, HIL_TRACK_OPERATIONS, words, began, hil_links_now(s->links), 0);
}

void hil_spans_flush(hil_spans *s)
{
    for (int i = 0; i < s->count && s->timeline; ++i)
        add(s, &s->span[i], s->stamp[2 * i], s->stamp[2 * i + 1]);
    s->count = 0;
}

void hil_spans_free(hil_spans *s)
{
    if (s->stamp) s->device->heap->unshare(s->device, s->stamp);
    hil_free(s->span);
    s->stamp = NULL;
    s->span = NULL;
}
