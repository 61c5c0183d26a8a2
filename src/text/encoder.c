/* encoder.c - text to ids as a chain of stages.

   [Note: encoding stages] bytes -> UTF-8 repair -> added tokens in raw text -> normalizer -> added
   tokens in normalized text -> words -> BPE or Unigram. Each stage passes on only what later text
   cannot change and holds back the rest, so a document of any size is encoded in slices and gets
   the ids of the whole. The text between two added tokens of raw text is a *segment*, which the
   normalizer treats as a text of its own; an added token in normalized text starts a new sequence
   of words. */
#include "text/tokenizer_parts.h"

#include "text/unicode/unicode.h"

#include <string.h>

enum { SLICE = 1 << 16 };

struct hil_encoder {
    const hil_tokenizer *tokenizer;
    hil_bpe_work *work;
    hil_unigram_work pieces;
    hil_text raw; /* the incomplete character of the slice before, and this slice */
    hil_added_scan raw_scan;
    hil_normalizer_state normal;
    hil_text normalized;
    hil_added_scan normal_scan;
    hil_pretokenizer_state words;
    hil_text word;  /* the beginning of a word that has not ended */
    bool word_open; /* it is a long one, whose first part was encoded */
    bool inside;    /* `before` is the last character of an unfinished word */
    uint32_t before;
    hil_ids *ids;         /* borrowed while words are taken */
    hil_anchors *anchors; /* may be NULL */
};

hil_status hil_encoder_create(hil_encoder **out, const hil_tokenizer *tokenizer)
{
    hil_encoder *encoder;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &encoder));
    encoder->tokenizer = tokenizer;
    hil_status status = hil_bpe_work_create(&encoder->work);
    if (status != HIL_OK) {
        hil_encoder_destroy(encoder);
        return status;
    }
    *out = encoder;
    return HIL_OK;
}

void hil_encoder_destroy(hil_encoder *encoder)
{
    if (!encoder) return;
    hil_bpe_work_destroy(encoder->work);
    hil_unigram_work_free(&encoder->pieces);
    hil_text_free(&encoder->raw);
    hil_text_free(&encoder->raw_scan.text);
    hil_normalizer_state_free(&encoder->normal);
    hil_text_free(&encoder->normalized);
    hil_text_free(&encoder->normal_scan.text);
    hil_pretokenizer_state_free(&encoder->words);
    hil_text_free(&encoder->word);
    hil_free(encoder);
}

static hil_status encode_part(hil_encoder *encoder, const char *text, size_t size, bool ended,
                              hil_ids *ids)
{
    const hil_bpe *bpe = &encoder->tokenizer->bpe;
    const hil_unigram *unigram = &encoder->tokenizer->unigram;
    hil_text *word = &encoder->word;
    if (unigram->scores) {
        HIL_TRY(hil_unigram_add(unigram, &encoder->pieces, text, size, ids));
        return ended ? hil_unigram_end(unigram, &encoder->pieces, ids) : HIL_OK;
    }
    if (ended && word->size == 0 && !encoder->word_open)
        return hil_bpe_encode(bpe, encoder->work, text, size, ids);
    if (!encoder->word_open) {
        HIL_TRY(hil_text_add(word, text, size));
        text = word->data;
        size = word->size;
        if (!ended && size <= bpe->long_word) return HIL_OK;
        word->size = 0;
        if (ended) return hil_bpe_encode(bpe, encoder->work, text, size, ids);
    }
    encoder->word_open = !ended;
    HIL_TRY(hil_bpe_word_add(bpe, encoder->work, text, size, ids));
    return ended ? hil_bpe_word_end(bpe, encoder->work, ids) : HIL_OK;
}

/* Takes part of a word. Without byte level words can be of any length, so they are cut where no
   merge can join the two sides. */
static hil_status take_word(void *context, const char *text, size_t size, bool ended)
{
    hil_encoder *encoder = context;
    const hil_bpe *bpe = &encoder->tokenizer->bpe;
    size_t from = 0;
    for (size_t at = 0, step; bpe->pairs && at < size; at += step) {
        uint32_t point = hil_utf8_get(text + at, &step);
        if (encoder->inside && !hil_bpe_may_join(bpe, encoder->before, point)) {
            HIL_TRY(encode_part(encoder, text + from, at - from, true, encoder->ids));
            from = at;
        }
        encoder->before = point;
        encoder->inside = true;
    }
    if (ended) encoder->inside = false;
    return encode_part(encoder, text + from, size - from, ended, encoder->ids);
}

static hil_status add_words(hil_encoder *encoder, const char *text, size_t size, bool last,
                            hil_ids *ids)
{
    const hil_pretokenizer_sink sink = {take_word, encoder};
    if (size == 0) text = "";
    encoder->ids = ids;
    return hil_pretokenizer_add(&encoder->tokenizer->pretokenizer, &encoder->words, text, size,
                                last, &sink);
}

static hil_status add_token(hil_encoder *encoder, int32_t id, hil_ids *ids)
{
    encoder->words.begun = true;
    return hil_ids_add(ids, id);
}

static hil_status pass_normalized(hil_encoder *encoder, bool last, hil_ids *ids)
{
    const hil_added *added = &encoder->tokenizer->normal_added;
    hil_text *text = &encoder->normalized;
    if (added->count == 0) {
        HIL_TRY(add_words(encoder, text->data, text->size, false, ids));
    } else {
        HIL_TRY(hil_added_add(&encoder->normal_scan, text->data, text->size));
        for (;;) {
            hil_added_hit hit;
            HIL_TRY(hil_added_next(added, &encoder->normal_scan, last, &hit));
            if (hit.id < 0 && hit.size == 0) break;
            if (hit.id < 0) {
                HIL_TRY(add_words(encoder, hit.text, hit.size, false, ids));
                continue;
            }
            HIL_TRY(add_words(encoder, "", 0, true, ids));
            HIL_TRY(add_token(encoder, hit.id, ids));
        }
        if (last) hil_added_reset(&encoder->normal_scan);
    }
    text->size = 0;
    return last ? add_words(encoder, "", 0, true, ids) : HIL_OK;
}

static hil_status add_segment(hil_encoder *encoder, const char *text, size_t size, hil_ids *ids)
{
    HIL_TRY(hil_normalizer_add(&encoder->tokenizer->normalizer, &encoder->normal, text, size,
                               &encoder->normalized));
    return pass_normalized(encoder, false, ids);
}

static hil_status end_segment(hil_encoder *encoder, hil_ids *ids)
{
    HIL_TRY(hil_normalizer_end(&encoder->tokenizer->normalizer, &encoder->normal,
                               &encoder->normalized));
    return pass_normalized(encoder, true, ids);
}

void hil_encoder_set_anchors(hil_encoder *encoder, hil_anchors *anchors)
{
    encoder->anchors = anchors;
}

static hil_status add_anchor(hil_encoder *encoder, const hil_added_hit *hit, size_t index)
{
    const hil_added_scan *scan = &encoder->raw_scan;
    hil_anchors *anchors = encoder->anchors;
    if (!anchors) return HIL_OK;
    HIL_TRY(HIL_GROW(&anchors->data, &anchors->capacity, anchors->count + 1));
    size_t begin = scan->dropped + (size_t)(hit->text - scan->text.data);
    anchors->data[anchors->count++] = (hil_anchor){begin, begin + hit->size, index};
    return HIL_OK;
}

static hil_status add_raw(hil_encoder *encoder, const char *text, size_t size, bool last,
                          hil_ids *ids)
{
    const hil_added *added = &encoder->tokenizer->raw_added;
    if (added->count == 0) {
        HIL_TRY(add_segment(encoder, text, size, ids));
        return last ? end_segment(encoder, ids) : HIL_OK;
    }
    HIL_TRY(hil_added_add(&encoder->raw_scan, text, size));
    for (;;) {
        hil_added_hit hit;
        HIL_TRY(hil_added_next(added, &encoder->raw_scan, last, &hit));
        if (hit.id < 0 && hit.size == 0) break;
        if (hit.id < 0) {
            HIL_TRY(add_segment(encoder, hit.text, hit.size, ids));
            continue;
        }
        HIL_TRY(end_segment(encoder, ids));
        HIL_TRY(add_anchor(encoder, &hit, ids->size));
        HIL_TRY(add_token(encoder, hit.id, ids));
    }
    if (!last) return HIL_OK;
    hil_added_reset(&encoder->raw_scan);
    return end_segment(encoder, ids);
}

/* Passes on the complete characters of encoder->raw, with U+FFFD for invalid UTF-8. */
static hil_status repair(hil_encoder *encoder, bool last, hil_ids *ids)
{
    hil_text *raw = &encoder->raw;
    size_t at = 0;
    while (at < raw->size) {
        size_t bad, valid = hil_utf8_check(raw->data + at, raw->size - at, &bad);
        if (valid) HIL_TRY(add_raw(encoder, raw->data + at, valid, false, ids));
        at += valid;
        if (bad == 0 && last) bad = raw->size - at;
        if (bad == 0) break;
        HIL_TRY(add_raw(encoder, "\xEF\xBF\xBD", 3, false, ids));
        at += bad;
    }
    raw->size -= at;
    if (at && raw->size) memmove(raw->data, raw->data + at, raw->size);
    return HIL_OK;
}

/* Discards the unfinished document. */
static void reset(hil_encoder *encoder)
{
    encoder->raw.size = encoder->normalized.size = encoder->word.size = 0;
    hil_added_reset(&encoder->raw_scan);
    hil_added_reset(&encoder->normal_scan);
    hil_normalizer_state_free(&encoder->normal);
    hil_pretokenizer_reset(&encoder->words);
    encoder->word_open = encoder->inside = false;
    hil_bpe_word_drop(encoder->work);
    hil_unigram_drop(&encoder->pieces);
}

static hil_status add_bytes(hil_encoder *encoder, const char *text, size_t size, hil_ids *ids)
{
    for (size_t at = 0, step; at < size; at += step) {
        step = size - at < SLICE ? size - at : SLICE;
        HIL_TRY(hil_text_add(&encoder->raw, text + at, step));
        HIL_TRY(repair(encoder, false, ids));
    }
    return HIL_OK;
}

hil_status hil_encoder_add(hil_encoder *encoder, const char *text, size_t size, hil_ids *ids)
{
    hil_status status = add_bytes(encoder, text, size, ids);
    if (status != HIL_OK) reset(encoder);
    return status;
}

hil_status hil_encoder_end(hil_encoder *encoder, hil_ids *ids)
{
    hil_status status = repair(encoder, true, ids);
    if (status == HIL_OK) status = add_raw(encoder, "", 0, true, ids);
    reset(encoder);
    return status;
}

static hil_status add_list(hil_ids *ids, const hil_ids *list)
{
    for (size_t i = 0; i < list->size; ++i) HIL_TRY(hil_ids_add(ids, list->data[i]));
    return HIL_OK;
}

hil_status hil_tokenizer_prefix(const hil_tokenizer *tokenizer, hil_ids *ids)
{
    return add_list(ids, &tokenizer->frame.before);
}

hil_status hil_tokenizer_encode(const hil_tokenizer *tokenizer, const char *text, size_t size,
                                hil_special special, hil_ids *ids)
{
    hil_encoder *encoder = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_encoder_create(&encoder, tokenizer));
    if (special == HIL_SPECIAL_ADD) HIL_TRY_DONE(hil_tokenizer_prefix(tokenizer, ids));
    HIL_TRY_DONE(hil_encoder_add(encoder, text, size, ids));
    HIL_TRY_DONE(hil_encoder_end(encoder, ids));
    if (special == HIL_SPECIAL_ADD) HIL_TRY_DONE(add_list(ids, &tokenizer->frame.after));
done:
    hil_encoder_destroy(encoder);
    return status;
}
