/* model_tokenizer.c - finds the tokenizer of a model folder; refuses text without one. */
#include "run/model_source.h"

#include "data/files.h"
#include "io/file.h"

#include <string.h>

hil_status hil_source_open_tokenizer(hil_source *s)
{
    s->eot = s->config.vocab > 256 ? 256 : -1;
    HIL_TRY(hil_path_join(s->tokenizer_path, s->folder, "tokenizer.json"));
    if (!hil_file_exists(s->tokenizer_path)) {
        s->tokenizer_path[0] = 0;
        return HIL_OK;
    }
    hil_bytes *file = &s->files.file[HIL_SIDECAR_TOKENIZER];
    HIL_TRY(hil_bytes_read(file, s->tokenizer_path));
    HIL_TRY(hil_tokenizer_parse(&s->tokenizer, file->data, file->size, s->tokenizer_path));
    s->eot = s->config.eos;
    int64_t vocab = hil_tokenizer_vocab(s->tokenizer);
    if (vocab > s->config.vocab)
        return hil_fail(HIL_ERR_INPUT,
                        "%s has %lld tokens, but the model's vocabulary (config.json) has %lld",
                        s->tokenizer_path, (long long)vocab, (long long)s->config.vocab);
    return HIL_OK;
}

static bool is_there(const char *folder, const char *name)
{
    char path[HIL_PATH_MAX];
    return hil_path_join(path, folder, name) == HIL_OK && hil_file_exists(path);
}

/* A tokenizer in another format, which transformers turns into a tokenizer.json. */
static const char *other_format(const char *folder)
{
    if (is_there(folder, "tokenizer.model")) return "tokenizer.model";
    if (is_there(folder, "vocab.json") && is_there(folder, "merges.txt"))
        return "vocab.json and merges.txt";
    return NULL;
}

hil_status hil_source_no_tokenizer(const char *folder, const char *otherwise)
{
    const char *other = other_format(folder);
    if (other)
        return hil_fail(HIL_ERR_INPUT,
                        "%s has no tokenizer.json, only %s; make one (pip install transformers "
                        "sentencepiece): python3 -c \"from transformers import AutoTokenizer; "
                        "AutoTokenizer.from_pretrained('%s').save_pretrained('%s')\"%s",
                        folder, other, folder, folder, otherwise);
    if (is_there(folder, "tekken.json"))
        return hil_fail(HIL_ERR_INPUT,
                        "%s has no tokenizer.json, only Mistral's own tekken.json; copy the "
                        "tokenizer.json of the same model's Hugging Face version into it%s",
                        folder, otherwise);
    return hil_fail(HIL_ERR_INPUT,
                    "%s has no tokenizer.json; copy that of the model it was made from into it%s",
                    folder, otherwise);
}

hil_status hil_source_need_tokenizer(const hil_source *s, const char *asked)
{
    if (asked && strcmp(asked, "bytes") != 0)
        return hil_fail(HIL_ERR_USAGE, "--tokenizer must be bytes, not '%s'", asked);
    if (asked && s->tokenizer)
        return hil_fail(HIL_ERR_USAGE,
                        "--tokenizer bytes is for models without a tokenizer, but there is %s",
                        s->tokenizer_path);
    if (asked || s->tokenizer || (s->bare && !other_format(s->folder))) return HIL_OK;
    return hil_source_no_tokenizer(
        s->folder, "; or give --tokenizer bytes if the bytes of the text are its tokens");
}

hil_status hil_source_check_data(const hil_source *s, const hil_source_words *words,
                                 const char *const *path, size_t count, bool *bytes)
{
    bool text;
    const char *asked = words->tokenizer;
    HIL_TRY(hil_files_check(path, count, &text));
    if (words->format && strcmp(words->format, "tokens") == 0) text = false;
    *bytes = text && !s->tokenizer;
    return text || asked ? hil_source_need_tokenizer(s, asked) : HIL_OK;
}
