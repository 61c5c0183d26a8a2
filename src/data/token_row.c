/* token_row.c - the columns of tokenized data as tokens with marks. */
#include "data/token_row.h"

#include "data/cache.h"

#define NOT_LEARNED (-100) /* the label that PyTorch's loss ignores */

/* *list is NULL where the key is missing or null. */
static hil_status get_list(const json_t *object, const char *key, const json_t **list)
{
    *list = json_object_get(object, key);
    if (json_is_null(*list)) *list = NULL;
    if (!*list || json_is_array(*list)) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "\"%s\" must be a list of integers", key);
}

static hil_status get_number(const json_t *list, const char *key, size_t index, int64_t *out)
{
    const json_t *value = json_array_get(list, index);
    *out = json_integer_value(value);
    if (json_is_integer(value)) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "\"%s\" must be a list of integers: number %zu is none", key,
                    index + 1);
}

/* A list with a number for each token; NULL: none. */
static hil_status get_beside(const json_t *object, const char *key, size_t size,
                             const json_t **list)
{
    HIL_TRY(get_list(object, key, list));
    if (!*list || json_array_size(*list) == size) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "\"%s\" has %zu numbers for %zu tokens", key,
                    json_array_size(*list), size);
}

static hil_status get_truth(const json_t *list, const char *key, size_t index, bool *out)
{
    const json_t *value = json_array_get(list, index);
    int64_t number = json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
    *out = number == 1;
    if ((json_is_boolean(value) || json_is_integer(value)) && (number == 0 || number == 1))
        return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "\"%s\" must be a list of 0 and 1: number %zu is neither", key,
                    index + 1);
}

static hil_status read_ids(const json_t *object, hil_token_row *row)
{
    const json_t *ids;
    int64_t id;
    HIL_TRY(get_list(object, "input_ids", &ids));
    if (!ids) return hil_fail(HIL_ERR_INPUT, "\"input_ids\" must be a list of integers");
    size_t size = json_array_size(ids);
    HIL_TRY(HIL_GROW(&row->token, &row->room, size + 1));
    for (size_t i = 0; i < size; ++i) {
        HIL_TRY(get_number(ids, "input_ids", i, &id));
        if (id < 0 || id > (int64_t)HIL_MARK_ID)
            return hil_fail(HIL_ERR_INPUT, "number %zu of \"input_ids\" is no token id: %lld",
                            i + 1, (long long)id);
        row->token[i] = (uint32_t)id;
    }
    row->size = size;
    return HIL_OK;
}

static hil_status read_labels(const json_t *labels, hil_token_row *row)
{
    int64_t label;
    for (size_t i = 0; i < row->size; ++i) {
        HIL_TRY(get_number(labels, "labels", i, &label));
        if (label == NOT_LEARNED)
            row->token[i] |= HIL_MARK_NO_LOSS;
        else if (label != (int64_t)row->token[i])
            return hil_fail(HIL_ERR_INPUT,
                            "number %zu of \"labels\" is %lld, where the token is %u: it must be "
                            "the token itself, or -100 to learn nothing there",
                            i + 1, (long long)label, (unsigned)row->token[i]);
    }
    return HIL_OK;
}

static hil_status read_mask(const json_t *object, const char *key, hil_token_row *row)
{
    const json_t *mask;
    bool learned;
    HIL_TRY(get_beside(object, key, row->size, &mask));
    for (size_t i = 0; mask && i < row->size; ++i) {
        HIL_TRY(get_truth(mask, key, i, &learned));
        if (!learned) row->token[i] |= HIL_MARK_NO_LOSS;
    }
    return HIL_OK;
}

static void begin_document(hil_token_row *row, size_t at)
{
    row->token[at] |= HIL_MARK_START | HIL_MARK_NO_LOSS;
}

static hil_status read_lengths(const json_t *object, hil_token_row *row)
{
    const json_t *lengths;
    int64_t length;
    size_t at = 0;
    HIL_TRY(get_list(object, "seq_lengths", &lengths));
    if (!lengths) return HIL_OK;
    for (size_t i = 0; i < json_array_size(lengths); ++i) {
        HIL_TRY(get_number(lengths, "seq_lengths", i, &length));
        if (length < 1 || (uint64_t)length > row->size - at)
            return hil_fail(HIL_ERR_INPUT,
                            "number %zu of \"seq_lengths\" is %lld, where %zu tokens are left",
                            i + 1, (long long)length, row->size - at);
        begin_document(row, at);
        at += (size_t)length;
    }
    if (at == row->size) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "\"seq_lengths\" are of %zu tokens, \"input_ids\" has %zu", at,
                    row->size);
}

/* Numbers that count from 0 in each document, between the tokens `begin` and `end`. */
static hil_status read_positions(const json_t *object, size_t begin, size_t end, hil_token_row *row)
{
    const json_t *positions;
    int64_t position, before = -1;
    HIL_TRY(get_beside(object, "position_ids", row->size, &positions));
    for (size_t i = begin; positions && i < end; ++i) {
        HIL_TRY(get_number(positions, "position_ids", i, &position));
        if (position == 0)
            begin_document(row, i);
        else if (before < 0 || position != before + 1)
            return hil_fail(HIL_ERR_INPUT,
                            "\"position_ids\" must count from 0 in each document, but number %zu "
                            "is %lld",
                            i + 1, (long long)position);
        before = position;
    }
    return HIL_OK;
}

/* The tokens from *begin to *end are those that "attention_mask" does not leave out. */
static hil_status read_attention(const json_t *object, size_t size, size_t *begin, size_t *end)
{
    const json_t *mask;
    bool seen;
    *begin = 0, *end = size;
    HIL_TRY(get_beside(object, "attention_mask", size, &mask));
    if (!mask) return HIL_OK;
    *begin = *end = 0;
    for (size_t i = 0; i < size; ++i) {
        HIL_TRY(get_truth(mask, "attention_mask", i, &seen));
        if (!seen) continue;
        if (*end == 0) *begin = *end = i;
        if (*end != i)
            return hil_fail(HIL_ERR_INPUT,
                            "\"attention_mask\" leaves out token %zu, between others: only padding "
                            "at the ends can be left out",
                            *end + 1);
        *end = i + 1;
    }
    return HIL_OK;
}

static void keep(hil_token_row *row, size_t begin, size_t end)
{
    row->size = end - begin;
    for (size_t i = 0; i < row->size; ++i) row->token[i] = row->token[begin + i];
    if (row->size) begin_document(row, 0);
    row->documents = 0;
    for (size_t i = 0; i < row->size; ++i) row->documents += (row->token[i] & HIL_MARK_START) != 0;
}

hil_status hil_token_row_read(const json_t *object, hil_token_row *row)
{
    const json_t *labels;
    size_t begin, end;
    HIL_TRY(read_ids(object, row));
    HIL_TRY(get_beside(object, "labels", row->size, &labels));
    if (labels) {
        HIL_TRY(read_labels(labels, row));
    } else {
        HIL_TRY(read_mask(object, "completion_mask", row));
        HIL_TRY(read_mask(object, "assistant_masks", row));
    }
    HIL_TRY(read_attention(object, row->size, &begin, &end));
    HIL_TRY(read_lengths(object, row));
    HIL_TRY(read_positions(object, begin, end, row));
    keep(row, begin, end);
    return HIL_OK;
}

void hil_token_row_learn_all(hil_token_row *row)
{
    for (size_t i = 0; i < row->size; ++i)
        if (!(row->token[i] & HIL_MARK_START)) row->token[i] &= ~HIL_MARK_NO_LOSS;
}

hil_status hil_token_row_check(const hil_token_row *row, int64_t vocab)
{
    for (size_t i = 0; i < row->size; ++i)
        if ((row->token[i] & HIL_MARK_ID) >= vocab)
            return hil_fail(HIL_ERR_INPUT, "token id %u is outside the vocabulary of %lld",
                            (unsigned)(row->token[i] & HIL_MARK_ID), (long long)vocab);
    return HIL_OK;
}

void hil_token_row_free(hil_token_row *row)
{
    hil_free(row->token);
    *row = (hil_token_row){0};
}
