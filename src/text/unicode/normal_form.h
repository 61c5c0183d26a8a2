/* normal_form.h - Unicode's normal forms, equal to those of Hugging Face tokenizers. */
#ifndef HIL_TEXT_UNICODE_NORMAL_FORM_H
#define HIL_TEXT_UNICODE_NORMAL_FORM_H

#include "base/text.h"

typedef enum hil_normal_form { HIL_NFC, HIL_NFD, HIL_NFKC, HIL_NFKD } hil_normal_form;

/* Appends the form of valid UTF-8 text. */
hil_status hil_normal_form_add(hil_normal_form form, const char *text, size_t size, hil_text *out);

/* The start of the last character that joins no character before it: later text cannot change the
   form of the text before that. 0: no such character. */
size_t hil_normal_form_stable(hil_normal_form form, const char *text, size_t size);

#endif
