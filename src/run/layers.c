/* layers.c - layers are of one kind if they are the same parts: they have the same bits in all sets
   of layers. */
#include "run/layers.h"

#include <string.h>

enum { SETS = 9, KINDS = 1 << SETS };

typedef struct sets {
    uint64_t *set[SETS];
} sets;

static sets sets_of(hil_config *c)
{
    return (sets){{c->slides, c->still, c->chunks, c->feeds, c->mixture.dense, c->delta.layers,
                   c->conv.layers, c->mamba.layers, c->indexer.shared}};
}

static unsigned kind_of(const sets *s, int64_t layer)
{
    unsigned kind = 0;
    for (int i = 0; i < SETS; ++i) kind |= (unsigned)(s->set[i][layer / 64] >> layer % 64 & 1) << i;
    return kind;
}

static void set_kind(const sets *s, int64_t layer, unsigned kind)
{
    uint64_t bit = (uint64_t)1 << layer % 64;
    for (int i = 0; i < SETS; ++i) {
        uint64_t *word = &s->set[i][layer / 64];
        *word = kind >> i & 1 ? *word | bit : *word & ~bit;
    }
}

void hil_layers_repeat(hil_config *config, int64_t layers)
{
    sets s = sets_of(config);
    for (int64_t n = config->layers; n < layers; ++n)
        set_kind(&s, n, kind_of(&s, n % config->layers));
    config->layers = layers;
}

void hil_layers_thin(hil_config *config, int64_t fewer, int64_t *stands)
{
    sets s = sets_of(config);
    int64_t all[KINDS] = {0}, seen[KINDS] = {0}, kept[KINDS] = {0}, count = 0;
    for (int64_t n = 0; n < config->layers; ++n) ++all[kind_of(&s, n)];
    for (int64_t n = 0; n < config->layers; ++n) {
        unsigned kind = kind_of(&s, n);
        int64_t few = all[kind] * fewer / config->layers, i = seen[kind]++;
        if (few < 1) few = 1;
        if (i != kept[kind] * all[kind] / few) continue;
        stands[count] = ++kept[kind] * all[kind] / few - i;
        set_kind(&s, count++, kind);
    }
    config->layers = count;
}
