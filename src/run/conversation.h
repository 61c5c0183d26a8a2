/* conversation.h - renders a file with a conversation to the text that a model reads. */
#ifndef HIL_RUN_CONVERSATION_H
#define HIL_RUN_CONVERSATION_H

#include "text/chat_template.h"

/* Renders the JSON object in `file` by the chat template of the model's folder. Appends to *out. */
hil_status hil_conversation_render(const char *model, const char *file, bool generation_prompt,
                                   hil_rendering *out);

#endif
