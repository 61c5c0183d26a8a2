/* template_lexer.h - cuts a template into tokens; removes white space around tags as Jinja does. */
#ifndef HIL_TEXT_TEMPLATE_LEXER_H
#define HIL_TEXT_TEMPLATE_LEXER_H

#include "base/arena.h"
#include "base/text.h"

typedef enum hil_token_type {
    HIL_T_END,
    HIL_T_DATA, /* text outside of tags */
    HIL_T_BLOCK_BEGIN,
    HIL_T_BLOCK_END,
    HIL_T_OUTPUT_BEGIN,
    HIL_T_OUTPUT_END,
    HIL_T_NAME,
    HIL_T_TEXT, /* a string, unescaped */
    HIL_T_INT,
    HIL_T_REAL,
    HIL_T_OPERATOR, /* size and data: its characters */
} hil_token_type;

typedef struct hil_token {
    hil_token_type type;
    int line;
    const char *data;
    size_t size;
    int64_t integer;
    double real;
} hil_token;

typedef struct hil_token_list {
    hil_token *data;
    size_t count, capacity;
} hil_token_list;

/* Texts are in `arena`; the caller frees the array with hil_free(tokens->data). `what` names the
   template in errors. */
hil_status hil_token_list_read(hil_token_list *tokens, hil_arena *arena, const char *text,
                               size_t size, const char *what);

#endif
