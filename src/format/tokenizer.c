/* tokenizer.c - tokenizer.json to a tokenizer. */
#include "format/tokenizer_parts.h"

#include "base/json.h"
#include "io/file.h"

#include <string.h>

hil_status hil_ids_add(hil_ids *ids, int32_t id)
{
    HIL_TRY(HIL_GROW(&ids->data, &ids->capacity, ids->size + 1));
    ids->data[ids->size++] = id;
    return HIL_OK;
}

void hil_ids_free(hil_ids *ids)
{
    hil_free(ids->data);
    *ids = (hil_ids){0};
}

/* "truncation" and "padding" are wishes of a caller, not part of the text's ids. */
static hil_status load(hil_tokenizer *tokenizer, const json_t *root, const char *what)
{
    if (!json_is_object(root)) return hil_fail(HIL_ERR_INPUT, "%s: not a JSON object", what);
    HIL_TRY(hil_pretokenizer_load(&tokenizer->pretokenizer, json_object_get(root, "pre_tokenizer"),
                                  what));
    HIL_TRY(hil_normalizer_load(&tokenizer->normalizer, json_object_get(root, "normalizer"), what));
    HIL_TRY(hil_detokenizer_load(&tokenizer->detokenizer, json_object_get(root, "decoder"), what));
    HIL_TRY(hil_bpe_load(&tokenizer->bpe, &tokenizer->vocab, json_object_get(root, "model"), what));
    tokenizer->bpe.byte_level = tokenizer->pretokenizer.byte_level;
    if (!tokenizer->bpe.byte_level) HIL_TRY(hil_bpe_index_pairs(&tokenizer->bpe));
    HIL_TRY(hil_added_load(&tokenizer->raw_added, &tokenizer->normal_added, &tokenizer->vocab,
                           &tokenizer->normalizer, json_object_get(root, "added_tokens"), what));
    return hil_template_load(&tokenizer->frame, json_object_get(root, "post_processor"),
                             &tokenizer->vocab, what);
}

hil_status hil_tokenizer_parse(hil_tokenizer **out, const char *json, size_t size, const char *what)
{
    *out = NULL;
    json_t *root;
    hil_tokenizer *tokenizer = NULL;
    HIL_TRY(hil_json_parse(json, size, what, &root));
    hil_status status = HIL_ALLOC(1, &tokenizer);
    if (status == HIL_OK) status = load(tokenizer, root, what);
    json_decref(root);
    if (status == HIL_OK)
        *out = tokenizer;
    else
        hil_tokenizer_close(tokenizer);
    return status;
}

hil_status hil_tokenizer_open(hil_tokenizer **out, const char *path)
{
    *out = NULL;
    hil_map map;
    HIL_TRY(hil_map_open(&map, path));
    hil_status status = hil_tokenizer_parse(out, map.data, map.size, path);
    hil_map_close(&map);
    return status;
}

void hil_tokenizer_close(hil_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    hil_bpe_free(&tokenizer->bpe);
    hil_added_free(&tokenizer->raw_added);
    hil_added_free(&tokenizer->normal_added);
    hil_normalizer_free(&tokenizer->normalizer);
    hil_ids_free(&tokenizer->frame.before);
    hil_ids_free(&tokenizer->frame.after);
    hil_detokenizer_free(&tokenizer->detokenizer);
    hil_vocab_free(&tokenizer->vocab);
    hil_free(tokenizer);
}

int64_t hil_tokenizer_vocab(const hil_tokenizer *tokenizer)
{
    return (int64_t)tokenizer->vocab.count;
}

int32_t hil_tokenizer_id(const hil_tokenizer *tokenizer, const char *token)
{
    return hil_vocab_id(&tokenizer->vocab, token, strlen(token));
}
