/* dialogue_encode.c - the tokens of a conversation, and which of them are learned. */
#include "data/dialogue.h"

/* What strftime_now tells a chat template: 26 July 2024, so that the same data gives the same
   tokens on any day. */
#define TEMPLATE_TIME 1721995200

hil_status hil_dialogue_encode(hil_dialogue *d, const json_t *variables)
{
    hil_rendering *r = &d->rendering;
    hil_jinja_limits limits = hil_jinja_default_limits();
    limits.now = TEMPLATE_TIME;
    r->text.size = r->span_count = d->ids.size = 0;
    r->spans_lost = false;
    HIL_TRY(hil_chat_template_learned(d->chat, variables, d->answers, &limits, r));
    HIL_TRY(HIL_GROW(&d->learned, &d->learned_room, r->span_count));
    return hil_rendering_encode(r, d->tokenizer, d->encoder, &d->ids, d->learned);
}

void hil_dialogue_free(hil_dialogue *d)
{
    hil_ids_free(&d->ids);
    hil_rendering_free(&d->rendering);
    hil_free(d->learned);
    d->learned = NULL;
    d->learned_room = 0;
}
