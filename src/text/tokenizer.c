/* tokenizer.c - tokenizer.json to a tokenizer. */
#include "text/tokenizer_parts.h"

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

/* Older files have no type of the model: the pieces of Unigram are a list. */
static bool is_unigram(const json_t *model, const hil_bpe_source *source)
{
    hil_json_pull vocab = source->vocab;
    const char *type = json_string_value(json_object_get(model, "type"));
    if (type) return strcmp(type, "Unigram") == 0;
    return !source->merges.text && hil_json_pull_peek(&vocab) == '[';
}

static hil_status load_model(hil_tokenizer *tokenizer, const json_t *model,
                             const hil_bpe_source *source, const char *what)
{
    hil_bpe *bpe = &tokenizer->bpe;
    hil_unigram *unigram = &tokenizer->unigram;
    if (is_unigram(model, source)) {
        HIL_TRY(hil_unigram_load(unigram, &tokenizer->vocab, model, source->vocab, what));
        tokenizer->unk_id = unigram->unk_id;
        tokenizer->byte_fallback = unigram->byte_fallback;
        return HIL_OK;
    }
    HIL_TRY(hil_bpe_load(bpe, &tokenizer->vocab, model, source, what));
    tokenizer->unk_id = bpe->unk_id;
    tokenizer->byte_fallback = bpe->byte_fallback;
    bpe->byte_level = hil_pretokenizer_drop_map(&tokenizer->pretokenizer);
    return bpe->byte_level ? HIL_OK : hil_bpe_index_pairs(bpe);
}

/* Ignores "truncation" and "padding": they do not change the ids of a text. */
static hil_status load(hil_tokenizer *tokenizer, const json_t *root, const hil_bpe_source *source,
                       const char *what)
{
    if (!json_is_object(root)) return hil_fail(HIL_ERR_INPUT, "%s: not a JSON object", what);
    HIL_TRY(hil_pretokenizer_load(&tokenizer->pretokenizer, json_object_get(root, "pre_tokenizer"),
                                  what));
    HIL_TRY(hil_normalizer_load(&tokenizer->normalizer, json_object_get(root, "normalizer"), what));
    HIL_TRY(hil_detokenizer_load(&tokenizer->detokenizer, json_object_get(root, "decoder"), what));
    HIL_TRY(load_model(tokenizer, json_object_get(root, "model"), source, what));
    HIL_TRY(hil_added_load(&tokenizer->raw_added, &tokenizer->normal_added, &tokenizer->vocab,
                           &tokenizer->normalizer, json_object_get(root, "added_tokens"), what));
    return hil_frame_load(&tokenizer->frame, json_object_get(root, "post_processor"),
                          &tokenizer->vocab, what);
}

/* Skips the members of an object before `key`; *found: `pull` is at the value of `key`. */
static hil_status find_member(hil_json_pull *pull, const char *key, hil_text *name, bool *found)
{
    bool more;
    *found = false;
    HIL_TRY(hil_json_pull_enter(pull, '{', &more));
    while (more) {
        HIL_TRY(hil_json_pull_key(pull, name));
        *found = strcmp(name->data, key) == 0;
        if (*found) return HIL_OK;
        HIL_TRY(hil_json_pull_skip(pull));
        HIL_TRY(hil_json_pull_next(pull, '{', &more));
    }
    return HIL_OK;
}

/* Finds the text of member `key` of "model". */
static hil_status find_part(hil_json_pull whole, const char *key, hil_text *name,
                            hil_json_pull *out)
{
    bool found;
    *out = (hil_json_pull){.what = whole.what};
    HIL_TRY(find_member(&whole, "model", name, &found));
    if (found && hil_json_pull_peek(&whole) == '{')
        HIL_TRY(find_member(&whole, key, name, &found));
    else
        found = false;
    if (!found) return HIL_OK;
    hil_json_pull_peek(&whole);
    size_t start = whole.at;
    HIL_TRY(hil_json_pull_skip(&whole));
    out->text = whole.text + start;
    out->size = whole.at - start;
    return HIL_OK;
}

/* Copies the text, with null in place of the two large members, for the general parser. */
static hil_status add_rest(const hil_json_pull *whole, const hil_bpe_source *source, hil_text *rest)
{
    const hil_json_pull *first = &source->vocab, *second = &source->merges;
    if (first->text > second->text) {
        first = &source->merges;
        second = &source->vocab;
    }
    const char *at = whole->text, *end = whole->text + whole->size;
    for (int i = 0; i < 2; ++i) {
        const hil_json_pull *part = i ? second : first;
        if (!part->text) continue;
        HIL_TRY(hil_text_add(rest, at, (size_t)(part->text - at)));
        HIL_TRY(hil_text_add(rest, "null", 4));
        at = part->text + part->size;
    }
    return hil_text_add(rest, at, (size_t)(end - at));
}

/* [Note: large members] Vocabulary and merges are nearly all of the file, and building JSON values
   for them would take most of the time, so they are read directly from the text. */
static hil_status parse(hil_tokenizer *tokenizer, const char *json, size_t size, const char *what)
{
    hil_json_pull whole = {json, size, 0, what};
    hil_bpe_source source;
    hil_text name = {0}, rest = {0};
    json_t *root = NULL;
    hil_status status;
    HIL_TRY_DONE(find_part(whole, "vocab", &name, &source.vocab));
    HIL_TRY_DONE(find_part(whole, "merges", &name, &source.merges));
    HIL_TRY_DONE(add_rest(&whole, &source, &rest));
    HIL_TRY_DONE(hil_json_parse(rest.data, rest.size, what, &root));
    HIL_TRY_DONE(load(tokenizer, root, &source, what));
done:
    json_decref(root);
    hil_text_free(&name);
    hil_text_free(&rest);
    return status;
}

hil_status hil_tokenizer_parse(hil_tokenizer **out, const char *json, size_t size, const char *what)
{
    hil_tokenizer *tokenizer;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &tokenizer));
    hil_status status = parse(tokenizer, json, size, what);
    if (status == HIL_OK)
        *out = tokenizer;
    else
        hil_tokenizer_close(tokenizer);
    return status;
}

hil_status hil_tokenizer_open(hil_tokenizer **out, const char *path)
{
    *out = NULL;
    hil_bytes content;
    HIL_TRY(hil_bytes_read(&content, path));
    hil_status status = hil_tokenizer_parse(out, content.data, content.size, path);
    hil_bytes_free(&content);
    return status;
}

void hil_tokenizer_close(hil_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    hil_bpe_free(&tokenizer->bpe);
    hil_unigram_free(&tokenizer->unigram);
    hil_added_free(&tokenizer->raw_added);
    hil_added_free(&tokenizer->normal_added);
    hil_normalizer_free(&tokenizer->normalizer);
    hil_pretokenizer_free(&tokenizer->pretokenizer);
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
