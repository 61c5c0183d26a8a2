/* conversation_show.c - hilbert tokenize --messages FILE --show-mask. */
#include "run/conversation_show.h"

#include "base/json.h"
#include "data/dialogue.h"
#include "data/record.h"
#include "io/file.h"

#include <stdio.h>

static hil_status read_record(const hil_tokenize_options *o, json_t **object, hil_record *record)
{
    hil_record_rules rules = {.chat = true};
    hil_bytes bytes;
    HIL_TRY(hil_record_format_read(o->format, &rules.format));
    HIL_TRY(hil_bytes_read(&bytes, o->messages));
    hil_status status = hil_json_parse(bytes.data, bytes.size, o->messages, object);
    hil_bytes_free(&bytes);
    HIL_TRY(status);
    HIL_TRY(hil_record_read(&rules, *object, record));
    if (record->kind == HIL_RECORD_CONVERSATION) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s holds no conversation", o->messages);
}

static hil_status print_token(const hil_dialogue *d, size_t index, bool learned, FILE *out)
{
    hil_text text = {0}, quoted = {0};
    hil_status status;
    HIL_TRY_DONE(hil_text_add(&text, "", 0));
    HIL_TRY_DONE(
        hil_tokenizer_decode(d->tokenizer, &d->ids.data[index], 1, HIL_SPECIAL_ADD, &text));
    HIL_TRY_DONE(hil_text_quote(&quoted, text.data));
    fprintf(out, "%6zu %7d  %-7s  %s\n", index, (int)d->ids.data[index], learned ? "learned" : "-",
            quoted.data);
done:
    hil_text_free(&text);
    hil_text_free(&quoted);
    return status;
}

static hil_status print_mask(const hil_dialogue *d, FILE *out)
{
    size_t span = 0, count = 0;
    for (size_t i = 0; i < d->ids.size; ++i) {
        while (span < d->rendering.span_count && d->learned[span].end <= i) ++span;
        /* nothing predicts the first token */
        bool learned = i && span < d->rendering.span_count && d->learned[span].begin <= i;
        HIL_TRY(print_token(d, i, learned, out));
        count += learned;
    }
    fprintf(out, "%zu of %zu tokens are learned\n", count, d->ids.size);
    return HIL_OK;
}

hil_status hil_conversation_show(const hil_tokenize_options *options,
                                 const hil_tokenizer *tokenizer, FILE *out)
{
    hil_chat_template *chat = NULL;
    hil_dialogue dialogue = {.tokenizer = tokenizer};
    hil_record record = {0};
    json_t *object = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_answers_read(options->train_on, &dialogue.answers));
    HIL_TRY_DONE(hil_chat_template_open(&chat, options->model));
    HIL_TRY_DONE(hil_encoder_create(&dialogue.encoder, tokenizer));
    HIL_TRY_DONE(read_record(options, &object, &record));
    dialogue.chat = chat;
    HIL_TRY_DONE(hil_dialogue_encode(&dialogue, record.variables));
    HIL_TRY_DONE(print_mask(&dialogue, out));
done:
    hil_dialogue_free(&dialogue);
    hil_encoder_destroy(dialogue.encoder);
    hil_record_free(&record);
    json_decref(object);
    hil_chat_template_close(chat);
    return status;
}
