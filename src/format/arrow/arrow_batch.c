/* arrow_batch.c - walks the columns of a batch in the order of the schema. */
#include "format/arrow/arrow_batch.h"

enum { LZ4 = 0, ZSTD = 1, PLAIN = 2 }; /* compressions; those of the format, and none */

typedef struct loading {
    const hil_arrow_batch *batch;
    hil_arrow_schema *schema;
    int64_t codec;
    uint64_t end; /* of the last buffer that was unpacked: the next one is behind it */
    /* Lists of the batch, and what was taken of them. */
    size_t columns, columns_count, columns_taken;
    size_t buffers, buffers_count, buffers_taken;
    size_t views, views_count, views_taken;
} loading;

static hil_status damaged(const loading *l)
{
    return hil_arrow_damaged(l->batch->file, "the description of a batch is not valid");
}

/* Takes the next buffer, for a column if that is kept. */
static hil_status load_buffer(loading *l, hil_arrow_buffer *buffer)
{
    const hil_arrow_batch *b = l->batch;
    if (l->buffers_taken == l->buffers_count) return damaged(l);
    size_t at = l->buffers + 16 * l->buffers_taken++;
    uint64_t offset = (uint64_t)hil_flat_long(b->flat, at);
    uint64_t size = (uint64_t)hil_flat_long(b->flat, at + 8);
    if (!buffer) return HIL_OK;
    if (offset > b->body_size || size > b->body_size - offset) return damaged(l);
    if (l->codec == ZSTD) {
        if (size && offset < l->end) return damaged(l);
        l->end = offset + size;
        return hil_arrow_buffer_unpack(buffer, b->file, b->body + offset, size);
    }
    hil_arrow_buffer_set(buffer, b->body + offset, size);
    return HIL_OK;
}

/* The further buffers of views are not read. */
static hil_status skip_views(loading *l)
{
    if (l->views_taken == l->views_count) return damaged(l);
    int64_t more = hil_flat_long(l->batch->flat, l->views + 8 * l->views_taken++);
    if (more < 0 || (uint64_t)more > l->buffers_count - l->buffers_taken) return damaged(l);
    l->buffers_taken += (size_t)more;
    return HIL_OK;
}

static hil_status load_nodes(loading *l, size_t begin, size_t end);

static hil_status load_node(loading *l, size_t at)
{
    hil_arrow_node *node = &l->schema->node[at];
    hil_flat *flat = l->batch->flat;
    if (l->columns_taken == l->columns_count) return damaged(l);
    size_t place = l->columns + 16 * l->columns_taken++;
    node->length = hil_flat_long(flat, place);
    node->nulls = hil_flat_long(flat, place + 8);
    if (node->length < 0 || node->nulls < 0) return damaged(l);
    for (int i = 0; i < node->buffers; ++i)
        HIL_TRY(load_buffer(l, node->kept ? &node->buffer[i] : NULL));
    if (node->variadic) HIL_TRY(skip_views(l));
    return node->kind == HIL_ARROW_INDEX ? HIL_OK : load_nodes(l, at + 1, node->end);
}

static hil_status load_nodes(loading *l, size_t begin, size_t end)
{
    for (size_t at = begin; at < end; at = l->schema->node[at].end) HIL_TRY(load_node(l, at));
    return HIL_OK;
}

hil_status hil_arrow_batch_load(const hil_arrow_batch *b, hil_arrow_schema *schema, size_t begin,
                                size_t end)
{
    loading l = {.batch = b, .schema = schema, .codec = PLAIN};
    l.columns = hil_flat_vector(b->flat, b->table, 1, 16, &l.columns_count);
    l.buffers = hil_flat_vector(b->flat, b->table, 2, 16, &l.buffers_count);
    l.views = hil_flat_vector(b->flat, b->table, 4, 8, &l.views_count);
    size_t packed = hil_flat_table(b->flat, b->table, 3);
    if (packed) l.codec = hil_flat_integer(b->flat, packed, 0, 1, LZ4);
    if (l.codec != PLAIN && l.codec != ZSTD)
        return hil_fail(HIL_ERR_INPUT,
                        "%s is compressed with LZ4, which is not read: write it with "
                        "compression='zstd' or 'uncompressed'",
                        b->file->what);
    HIL_TRY(load_nodes(&l, begin, end));
    return b->flat->bad ? damaged(&l) : HIL_OK;
}

hil_status hil_arrow_batch_rows(const hil_arrow_batch *b, int64_t *rows)
{
    *rows = hil_flat_integer(b->flat, b->table, 0, 8, 0);
    if (!b->flat->bad && *rows >= 0) return HIL_OK;
    return hil_arrow_damaged(b->file, "a batch has no valid number of rows");
}
