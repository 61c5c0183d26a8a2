/* gguf_model.h - writes a model as one GGUF file that llama.cpp loads. */
#ifndef HIL_FORMAT_GGUF_MODEL_H
#define HIL_FORMAT_GGUF_MODEL_H

#include "model/arch.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "text/tokenizer.h"

/* A model to convert. Borrows everything. */
typedef struct hil_gguf_model {
    const char *name;
    const hil_config *config;
    const hil_safetensors *weights;
    /* The weights are a checkpoint's: masters in fp32, and no matrix is transposed as GPT-2's are
       in model folders. */
    bool masters;
    const hil_tokenizer *tokenizer;    /* NULL: the file has no vocabulary */
    const hil_bytes *tokenizer_config; /* tokenizer_config.json; data NULL: none */
    const hil_bytes *chat_template;    /* chat_template.jinja; data NULL: none */
    hil_gguf_type type;                /* of matrices; vectors and GPT-2's positions are fp32 */
} hil_gguf_model;

/* Called after each piece of `bytes` bytes; a failure ends the writing. */
typedef struct hil_gguf_watch {
    hil_status (*wrote)(void *context, uint64_t bytes);
    /* Called once, before any data, with the size that the file will have. */
    hil_status (*begin)(void *context, uint64_t total, size_t tensors);
    void *context;
} hil_gguf_watch;

/* Writes the file `path`, whole or not at all. Memory does not grow with the model. Fails where
   llama.cpp would compute something else. */
hil_status hil_gguf_model_write(const hil_gguf_model *model, const char *path,
                                const hil_gguf_watch *watch);

/* gguf_vocab.c: sets the keys tokenizer.*. */
hil_status hil_gguf_model_vocab(const hil_gguf_model *model, hil_gguf *file);

#endif
