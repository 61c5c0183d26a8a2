/* deepspeed_files.c - finds the files of a checkpoint of DeepSpeed. */
#include "format/deepspeed_files.h"

#include "base/alloc.h"
#include "base/text.h"
#include "io/file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 1 << 16, NAME_MOST = 256 };

typedef enum kind { NEITHER, OPTIMIZER, MODEL } kind;

typedef struct listed {
    kind kind;
    int64_t rank;
    char name[NAME_MOST];
} listed;

typedef struct listing {
    listed *file;
    size_t count, room;
} listing;

/* Reads the digits at *at and moves it behind them; -1: there are none. */
static int64_t take_digits(const char **at)
{
    char *end;
    if (!isdigit((unsigned char)**at)) return -1;
    long long n = strtoll(*at, &end, 10);
    *at = end;
    return n > RANKS_MOST ? RANKS_MOST : n;
}

static bool take_word(const char **at, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(*at, word, size) != 0) return false;
    *at += size;
    return true;
}

/* [bf16_|fp16_][zero_pp_rank_R_]mp_rank_M_{optim,model}_states.pt; *other: the model is divided in
   a way besides ZeRO's. */
static kind parse_name(const char *name, int64_t *rank, bool *other)
{
    *rank = 0;
    *other = strncmp(name, "layer_", 6) == 0 || strncmp(name, "expp_rank_", 10) == 0;
    if (!take_word(&name, "bf16_")) (void)take_word(&name, "fp16_");
    bool zero = take_word(&name, "zero_pp_rank_");
    if (zero) *rank = take_digits(&name);
    if (*rank < 0 || (zero && !take_word(&name, "_"))) return NEITHER;
    if (!take_word(&name, "mp_rank_")) return NEITHER;
    int64_t model = take_digits(&name);
    kind found = strcmp(name, "_model_states.pt") == 0           ? MODEL
                 : zero && strcmp(name, "_optim_states.pt") == 0 ? OPTIMIZER
                                                                 : NEITHER;
    if (model != 0 && found != NEITHER) *other = true;
    return found;
}

static hil_status note_name(void *context, const char *folder, const char *name)
{
    listing *all = context;
    listed file = {0};
    bool other;
    file.kind = parse_name(name, &file.rank, &other);
    if (other)
        return hil_fail(HIL_ERR_INPUT,
                        "%s/%s: a model divided by layers, tensors or experts is not supported; "
                        "convert it with DeepSpeed first",
                        folder, name);
    if (file.kind == NEITHER || strlen(name) >= NAME_MOST) return HIL_OK;
    memcpy(file.name, name, strlen(name));
    HIL_TRY(HIL_GROW(&all->file, &all->room, all->count + 1));
    all->file[all->count++] = file;
    return HIL_OK;
}

static int compare_found(const void *left, const void *right)
{
    const listed *a = left, *b = right;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* Opens the next files of one kind, `most` in all; they must be those of ranks 0, 1 ... */
static hil_status open_files(const hil_deepspeed_files *f, const listing *all, kind which,
                             size_t most, hil_torch **out, size_t *count)
{
    char path[HIL_PATH_MAX];
    size_t first = 0;
    while (first < all->count && all->file[first].kind != which) ++first;
    for (size_t i = first + *count; i < all->count && *count < most; ++i, ++*count) {
        const listed *file = &all->file[i];
        if (file->kind != which) break;
        if (file->rank != (int64_t)*count)
            return hil_fail(HIL_ERR_INPUT, "%s has no %s states of rank %zu, or twice those of %zu",
                            f->path, which == MODEL ? "model" : "optimizer", *count,
                            (size_t)file->rank);
        HIL_TRY(hil_path_join(path, f->path, file->name));
        HIL_TRY(hil_torch_open(&out[*count], path));
    }
    return HIL_OK;
}

/* The folder that `latest` names, if there is one. */
static hil_status find_folder(hil_deepspeed_files *f, const char *path)
{
    char latest[HIL_PATH_MAX];
    hil_bytes tag;
    HIL_TRY(hil_path_join(latest, path, "latest"));
    if (!hil_file_exists(latest)) {
        HIL_TRY(hil_path_join(f->path, path, ""));
        f->path[strlen(path)] = 0;
        return HIL_OK;
    }
    HIL_TRY(hil_bytes_read(&tag, latest));
    tag.data[strcspn(tag.data, "\r\n")] = 0;
    hil_status status = hil_path_is_plain(tag.data)
                            ? hil_path_join(f->path, path, tag.data)
                            : hil_fail(HIL_ERR_INPUT, "%s does not name a folder", latest);
    hil_bytes_free(&tag);
    return status;
}

const hil_pickle_value *hil_deepspeed_files_optimizer(const hil_deepspeed_files *f, size_t rank)
{
    return hil_pickle_get(hil_torch_root(f->optimizer[rank]), "optimizer_state_dict");
}

/* The number of ranks that the files say; a list has one for each group of parameters. */
static int64_t partition_count(const hil_pickle_value *v)
{
    int64_t most = 0, n;
    if (hil_pickle_whole(v, &n)) return n;
    for (size_t i = 0; hil_pickle_at(v, i); ++i)
        if (hil_pickle_whole(hil_pickle_at(v, i), &n) && n > most) most = n;
    return most;
}

static hil_status check_files(hil_deepspeed_files *f)
{
    int64_t stage;
    const hil_pickle_value *states = f->ranks ? hil_deepspeed_files_optimizer(f, 0) : NULL;
    if (!f->ranks || !f->models)
        return hil_fail(HIL_ERR_INPUT,
                        "%s has no %s_states.pt: it is no checkpoint of DeepSpeed's stages 1 to 3",
                        f->path, f->ranks ? "mp_rank_00_model" : "*_optim");
    if (!hil_pickle_whole(hil_pickle_get(states, "zero_stage"), &stage) || stage < 1 || stage > 3)
        return hil_fail(HIL_ERR_INPUT, "%s is not of ZeRO stage 1, 2 or 3",
                        hil_torch_name(f->optimizer[0]));
    f->stage = (int)stage;
    int64_t ranks = partition_count(hil_pickle_get(states, "partition_count"));
    if (ranks != (int64_t)f->ranks)
        return hil_fail(HIL_ERR_INPUT,
                        "%s has the optimizer states of %zu ranks, but %lld saved them: copy all "
                        "files of the checkpoint into one folder",
                        f->path, f->ranks, (long long)ranks);
    return HIL_OK;
}

/* In stage 3 each rank has a part of the frozen parameters in its file of the model's states. */
static hil_status open_frozen(hil_deepspeed_files *f, const listing *all)
{
    const hil_pickle_value *shapes =
        hil_pickle_get(hil_torch_root(f->model[0]), "frozen_param_shapes");
    if (f->stage < 3 || !shapes || shapes->kind != HIL_PICKLE_DICT || !shapes->count) return HIL_OK;
    HIL_TRY(open_files(f, all, MODEL, f->ranks, f->model, &f->models));
    if (f->models == f->ranks) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s has the model states of %zu ranks, not of %zu", f->path,
                    f->models, f->ranks);
}

hil_status hil_deepspeed_files_open(hil_deepspeed_files *f, const char *path)
{
    listing all = {0};
    hil_status status;
    *f = (hil_deepspeed_files){0};
    HIL_TRY_DONE(find_folder(f, path));
    HIL_TRY_DONE(hil_dir_each(f->path, HIL_MISSING_FAILS, note_name, &all));
    if (all.count) qsort(all.file, all.count, sizeof *all.file, compare_found);
    HIL_TRY_DONE(HIL_ALLOC(all.count, &f->optimizer));
    HIL_TRY_DONE(HIL_ALLOC(all.count, &f->model));
    HIL_TRY_DONE(open_files(f, &all, OPTIMIZER, RANKS_MOST, f->optimizer, &f->ranks));
    HIL_TRY_DONE(open_files(f, &all, MODEL, 1, f->model, &f->models));
    HIL_TRY_DONE(check_files(f));
    HIL_TRY_DONE(open_frozen(f, &all));
done:
    hil_free(all.file);
    return status;
}

void hil_deepspeed_files_close(hil_deepspeed_files *f)
{
    for (size_t i = 0; i < f->ranks; ++i) hil_torch_close(f->optimizer[i]);
    for (size_t i = 0; i < f->models; ++i) hil_torch_close(f->model[i]);
    hil_free(f->optimizer);
    hil_free(f->model);
}
