/* gguf_vocab.c - the tokenizer and the chat template of a model, as metadata of GGUF. */
#include "format/gguf_model.h"

#include "base/json.h"
#include "io/file.h"
#include "text/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of tokens; the numbers are the format's. */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

static hil_status set_word(hil_gguf *file, const char *key, const char *word)
{
    return hil_gguf_set_text(file, key, word, strlen(word));
}

/* Whether the tokenizer cuts text only as llama.cpp's SentencePiece does. */
static bool cuts_pieces(const hil_pretokenizer *p)
{
    if (p->count == 0) return true;
    return p->count == 1 && (p->steps->replaces || p->steps->known == HIL_KNOWN_SPACE);
}

/* llama.cpp's name for how the tokenizer cuts text into words; NULL: it has none. */
static const char *word_rule(const hil_tokenizer *t)
{
    const hil_pretokenizer *p = &t->pretokenizer;
    if (t->unigram.scores) return NULL;
    for (size_t i = 0; i < t->normalizer.count; ++i) {
        const struct hil_normal_step *step = &t->normalizer.steps[i];
        bool known = step->kind == HIL_NORMAL_FORM && step->form == HIL_NFC;
        known |= step->kind == HIL_NORMAL_PREPEND || step->kind == HIL_NORMAL_REPLACE;
        if (!known) return NULL;
    }
    if (!t->bpe.byte_level) return t->bpe.byte_fallback && cuts_pieces(p) ? "default" : NULL;
    for (size_t i = 0; i < p->count; ++i)
        if (p->steps[i].prefix != HIL_PREFIX_NEVER) return NULL;
    bool digits = p->count == 2 && p->steps[0].known == HIL_KNOWN_DIGIT &&
                  p->steps[0].behavior == HIL_BEHAVIOR_ISOLATED;
    if (digits && p->steps[1].known == HIL_KNOWN_GPT2) return "smollm";
    if (p->count != 1) return NULL;
    bool keeps = p->steps->behavior == HIL_BEHAVIOR_ISOLATED ||
                 (p->steps->behavior == HIL_BEHAVIOR_REMOVED && p->steps->invert);
    if (!keeps) return NULL;
    if (p->steps->known == HIL_KNOWN_GPT2) return "gpt-2";
    if (p->steps->known == HIL_KNOWN_LLAMA3)
        return t->bpe.ignore_merges ? "llama-bpe" : "smaug-bpe";
    return p->steps->known == HIL_KNOWN_QWEN2 && !t->bpe.ignore_merges ? "qwen2" : NULL;
}

/* Whether a text gets a space before it. */
static bool prepends(const hil_tokenizer *t)
{
    for (size_t i = 0; i < t->normalizer.count; ++i)
        if (t->normalizer.steps[i].kind == HIL_NORMAL_PREPEND) return true;
    return t->pretokenizer.count && t->pretokenizer.steps->replaces &&
           t->pretokenizer.steps->prefix != HIL_PREFIX_NEVER;
}

static bool is_byte(const hil_tokenizer *t, int64_t id)
{
    for (int byte = 0; byte < 256; ++byte)
        if (t->bpe.byte_ids[byte] == id) return true;
    return false;
}

/* Some tokenizers do not mark such tokens as special. */
static bool looks_special(const char *text, size_t size)
{
    return size > 4 && memcmp(text, "<|", 2) == 0 && memcmp(text + size - 2, "|>", 2) == 0;
}

static int kind_of(const hil_tokenizer *t, int64_t id)
{
    if (!hil_vocab_has(&t->vocab, id)) return UNUSED;
    const hil_vocab_piece *piece = &t->vocab.pieces[id];
    bool spm = !t->bpe.byte_level;
    if (spm && id == t->bpe.unk_id) return UNKNOWN;
    if (spm && is_byte(t, id)) return BYTE;
    if (!piece->added) return NORMAL;
    const char *text = t->vocab.text.data + piece->offset;
    return piece->special || looks_special(text, piece->size) ? CONTROL : USER_DEFINED;
}

static hil_status set_tokens(const hil_tokenizer *t, int64_t vocab, hil_gguf *file)
{
    HIL_TRY(hil_gguf_set_array(file, "tokenizer.ggml.tokens", HIL_GGUF_ITEM_TEXT, (size_t)vocab));
    for (int64_t id = 0; id < vocab; ++id) {
        char name[32];
        const char *text = name;
        size_t size = (size_t)snprintf(name, sizeof name, "[PAD%lld]", (long long)id);
        if (hil_vocab_has(&t->vocab, id)) {
            text = t->vocab.text.data + t->vocab.pieces[id].offset;
            size = t->vocab.pieces[id].size;
        }
        HIL_TRY(hil_gguf_add_text(file, text, size));
    }
    HIL_TRY(
        hil_gguf_set_array(file, "tokenizer.ggml.token_type", HIL_GGUF_ITEM_I32, (size_t)vocab));
    for (int64_t id = 0; id < vocab; ++id) HIL_TRY(hil_gguf_add_i32(file, kind_of(t, id)));
    return HIL_OK;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = ((const hil_merge *)a)->rank, y = ((const hil_merge *)b)->rank;
    return x < y ? -1 : x > y;
}

/* The merges in their order. The caller frees *out. */
static hil_status list_merges(const hil_bpe *bpe, hil_merge **out, size_t *count)
{
    *count = 0;
    HIL_TRY(HIL_ALLOC(bpe->merge_mask + 1, out));
    for (size_t i = 0; i <= bpe->merge_mask; ++i)
        if (bpe->merges[i].key != UINT64_MAX) (*out)[(*count)++] = bpe->merges[i];
    qsort(*out, *count, sizeof **out, by_rank);
    return HIL_OK;
}

static hil_status add_piece(const hil_vocab *vocab, int32_t id, hil_text *text)
{
    const hil_vocab_piece *piece = &vocab->pieces[id];
    return hil_text_add(text, vocab->text.data + piece->offset, piece->size);
}

static hil_status set_merges(const hil_tokenizer *t, const hil_merge *merge, size_t count,
                             hil_gguf *file)
{
    hil_text pair = {0};
    hil_status status;
    HIL_TRY_DONE(hil_gguf_set_array(file, "tokenizer.ggml.merges", HIL_GGUF_ITEM_TEXT, count));
    for (size_t i = 0; i < count; ++i) {
        pair.size = 0;
        HIL_TRY_DONE(add_piece(&t->vocab, (int32_t)(merge[i].key >> 32), &pair));
        HIL_TRY_DONE(hil_text_add(&pair, " ", 1));
        HIL_TRY_DONE(add_piece(&t->vocab, (int32_t)(uint32_t)merge[i].key, &pair));
        HIL_TRY_DONE(hil_gguf_add_text(file, pair.data, pair.size));
    }
done:
    hil_text_free(&pair);
    return status;
}

/* llama.cpp joins the pair whose token has the highest score: the earlier the merge that makes a
   token, the higher its score. */
static hil_status set_scores(const hil_merge *merge, size_t count, int64_t vocab, hil_gguf *file)
{
    float *score;
    hil_status status = HIL_ALLOC(vocab, &score);
    for (size_t i = count; status == HIL_OK && i-- > 0;)
        if (merge[i].id < vocab) score[merge[i].id] = -(float)(i + 1);
    if (status == HIL_OK)
        status =
            hil_gguf_set_array(file, "tokenizer.ggml.scores", HIL_GGUF_ITEM_F32, (size_t)vocab);
    for (int64_t id = 0; status == HIL_OK && id < vocab; ++id)
        status = hil_gguf_add_f32(file, score[id]);
    hil_free(score);
    return status;
}

/* The id of a special token of tokenizer_config.json: a string, or an object with `content`; else
   that of config.json. -1: none. */
static int64_t special_id(const hil_tokenizer *t, const json_t *config, const char *name,
                          int64_t otherwise)
{
    const json_t *token = json_object_get(config, name);
    if (json_is_object(token)) token = json_object_get(token, "content");
    const char *text = json_string_value(token);
    int32_t id = text ? hil_tokenizer_id(t, text) : -1;
    return id >= 0 ? id : otherwise;
}

static bool has_id(const hil_ids *ids, int64_t id)
{
    for (size_t i = 0; i < ids->size; ++i)
        if (ids->data[i] == id) return true;
    return false;
}

static hil_status set_special(const hil_gguf_model *m, const json_t *config, hil_gguf *file)
{
    const hil_tokenizer *t = m->tokenizer;
    const struct {
        const char *name, *key;
        int64_t id;
    } token[] = {
        {"bos_token", "tokenizer.ggml.bos_token_id", m->config->bos},
        {"eos_token", "tokenizer.ggml.eos_token_id", m->config->eos},
        {"unk_token", "tokenizer.ggml.unknown_token_id", t->bpe.unk_id},
        {"pad_token", "tokenizer.ggml.padding_token_id", m->config->pad},
    };
    int64_t found[4];
    for (size_t i = 0; i < 4; ++i) {
        found[i] = special_id(t, config, token[i].name, token[i].id);
        if (found[i] >= 0 && found[i] < m->config->vocab)
            HIL_TRY(hil_gguf_set_u32(file, token[i].key, found[i]));
    }
    HIL_TRY(hil_gguf_set_bool(file, "tokenizer.ggml.add_bos_token",
                              has_id(&t->frame.before, found[0])));
    return hil_gguf_set_bool(file, "tokenizer.ggml.add_eos_token",
                             has_id(&t->frame.after, found[1]));
}

/* The template in a file of its own, or that of tokenizer_config.json: of several, the default. */
static hil_status set_template(const hil_gguf_model *m, const json_t *config, hil_gguf *file)
{
    static const char key[] = "tokenizer.chat_template";
    const json_t *member = json_object_get(config, "chat_template");
    if (m->chat_template->data)
        return hil_gguf_set_text(file, key, m->chat_template->data, m->chat_template->size);
    for (size_t i = 0; i < json_array_size(member); ++i) {
        const json_t *entry = json_array_get(member, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!name || strcmp(name, "default") != 0) continue;
        member = json_object_get(entry, "template");
        break;
    }
    const char *text = json_string_value(member);
    return text ? hil_gguf_set_text(file, key, text, json_string_length(member)) : HIL_OK;
}

static hil_status set_all(const hil_gguf_model *m, const json_t *config, const hil_merge *merge,
                          size_t merges, hil_gguf *file)
{
    const hil_tokenizer *t = m->tokenizer;
    bool spm = !t->bpe.byte_level;
    const char *rule = word_rule(t);
    if (!rule)
        return hil_fail(HIL_ERR_INPUT,
                        "llama.cpp does not know how this model's tokenizer.json cuts text into "
                        "words: the model cannot be GGUF");
    HIL_TRY(set_word(file, "tokenizer.ggml.model", spm ? "llama" : "gpt2"));
    HIL_TRY(set_word(file, "tokenizer.ggml.pre", rule));
    HIL_TRY(set_tokens(t, m->config->vocab, file));
    HIL_TRY(spm ? set_scores(merge, merges, m->config->vocab, file)
                : set_merges(t, merge, merges, file));
    if (spm) HIL_TRY(hil_gguf_set_bool(file, "tokenizer.ggml.add_space_prefix", prepends(t)));
    HIL_TRY(set_special(m, config, file));
    return set_template(m, config, file);
}

hil_status hil_gguf_model_vocab(const hil_gguf_model *m, hil_gguf *file)
{
    json_t *config = NULL;
    hil_merge *merge = NULL;
    size_t merges = 0;
    hil_status status;
    if (!m->tokenizer) return set_word(file, "tokenizer.ggml.model", "no_vocab");
    if (m->tokenizer_config->data)
        HIL_TRY_DONE(hil_json_parse(m->tokenizer_config->data, m->tokenizer_config->size,
                                    "tokenizer_config.json", &config));
    HIL_TRY_DONE(list_merges(&m->tokenizer->bpe, &merge, &merges));
    HIL_TRY_DONE(set_all(m, config, merge, merges, file));
done:
    json_decref(config);
    hil_free(merge);
    return status;
}
