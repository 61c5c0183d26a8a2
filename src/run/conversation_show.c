/* conversation_show.c - hilbert tokenize --messages FILE --show-mask. */
#include "run/conversation_show.h"

#include "run/conversation.h"

#include <stdio.h>

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

hil_status hil_conversation_show(const hil_tokenize_options *o, const hil_tokenizer *tokenizer,
                                 FILE *out)
{
    hil_conversation conversation;
    const hil_conversation_file file = {o->messages, o->format, o->train_on};
    hil_status status = hil_conversation_learn(&conversation, o->model, tokenizer, &file);
    bool pair = conversation.record.kind == HIL_RECORD_PAIR;
    if (status == HIL_OK && pair) fputs("chosen:\n", out);
    if (status == HIL_OK) status = print_mask(&conversation.dialogue, out);
    if (status == HIL_OK && pair) {
        fputs("rejected:\n", out);
        status = hil_conversation_learn_worse(&conversation);
        if (status == HIL_OK) status = print_mask(&conversation.dialogue, out);
    }
    hil_conversation_free(&conversation);
    return status;
}
