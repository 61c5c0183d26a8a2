/* chat_template.h - the chat template of a model folder, and the variables every template has. */
#ifndef HIL_TEXT_CHAT_TEMPLATE_H
#define HIL_TEXT_CHAT_TEMPLATE_H

#include "text/template.h"

/* Owns the parsed templates and the names of special tokens. Never changes once it is open. */
typedef struct hil_chat_template hil_chat_template;

/* Reads chat_template.jinja and, if it exists, additional_chat_templates/tool_use.jinja; or else
   `chat_template` of tokenizer_config.json: one template, or several with names. Fails if the
   folder has none. */
hil_status hil_chat_template_open(hil_chat_template **out, const char *folder);
void hil_chat_template_close(hil_chat_template *chat);
/* Whether the folder has one; also true if that cannot be known, so that opening it says why. */
bool hil_chat_template_exists(const char *folder);
/* A hash of the files from which hil_chat_template_open reads. */
hil_status hil_chat_template_key(const char *folder, uint64_t *key);

/* The template for a conversation: the one named tool_use if it exists and `variables` has tools,
   else the default. Borrowed. */
hil_status hil_chat_template_choose(const hil_chat_template *chat, const json_t *variables,
                                    const hil_jinja **out);

/* Renders a conversation. `variables` is a JSON object with `messages` and other variables of the
   template (tools, add_generation_prompt, ...); bos_token and the other special tokens are added if
   `variables` lacks them. `limits` may be NULL. Appends to *out. */
hil_status hil_chat_template_render(const hil_chat_template *chat, const json_t *variables,
                                    const hil_jinja_limits *limits, hil_rendering *out);

#endif
