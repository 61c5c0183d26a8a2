/* Checkpoints that DeepSpeed 0.19.8 wrote (tools/golden_deepspeed.py): weights and moments of every
   parameter are those that DeepSpeed itself gathers, for stages 1 to 3 and 1 to 3 ranks. */
#include "check.h"
#include "format/deepspeed_checkpoint.h"
#include "in_folder.h"

#define GOLDEN HIL_TESTS "/golden/deepspeed/"

static void compare(const hil_safetensors *got, const hil_safetensors *oracle, const char *prefix,
                    size_t *compared)
{
    for (size_t i = 0; i < hil_safetensors_count(got); ++i) {
        const hil_entry *a = hil_safetensors_at(got, i);
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, a->name);
        const hil_entry *b = hil_safetensors_find(oracle, name);
        if (!b) check_die(__FILE__, __LINE__, name);
        CHECK_INT(a->bytes, b->bytes);
        CHECK_INT(a->ndim, b->ndim);
        for (int d = 0; d < a->ndim; ++d) CHECK_INT(a->dim[d], b->dim[d]);
        float *x = malloc(a->bytes), *y = malloc(a->bytes);
        CHECK_OK(hil_entry_read(a, 0, x, a->bytes));
        CHECK_OK(hil_entry_read(b, 0, y, a->bytes));
        if (memcmp(x, y, a->bytes) != 0) check_die(__FILE__, __LINE__, name);
        /* any range is the same as part of the whole */
        for (size_t first = 0; first + 28 <= a->bytes; first += 52) {
            float part[7];
            CHECK_OK(hil_entry_read(a, first, part, sizeof part));
            CHECK(memcmp(part, (char *)x + first, sizeof part) == 0);
        }
        free(x);
        free(y);
        ++*compared;
    }
}

/* DeepSpeed does not gather moments of several groups: the losses of test_deepspeed show them. */
static void check_case(const char *name, int stage, int ranks, size_t trained, size_t frozen)
{
    char path[512];
    hil_deepspeed_checkpoint *c;
    hil_safetensors *oracle;
    size_t compared[HIL_STATES] = {0};
    snprintf(path, sizeof path, GOLDEN "%s.safetensors", name);
    CHECK_OK(hil_safetensors_open(&oracle, path));
    snprintf(path, sizeof path, GOLDEN "%s", name);
    CHECK_OK(hil_deepspeed_checkpoint_open(&c, path));
    hil_deepspeed_progress p = hil_deepspeed_checkpoint_progress(c);
    CHECK_INT(p.stage, stage);
    CHECK_INT(p.ranks, ranks);
    CHECK_INT(p.steps, 3);
    CHECK_INT(p.updates, 3);
    CHECK_INT(p.samples, 3 * 2 * ranks);
    compare(hil_deepspeed_checkpoint_state(c, HIL_MASTER), oracle, "", &compared[0]);
    CHECK_INT(compared[0], trained + frozen);
    if (hil_safetensors_find(oracle, "exp_avg.lm_head.weight") ||
        hil_safetensors_find(oracle, "exp_avg.model.embed_tokens.weight")) {
        compare(hil_deepspeed_checkpoint_state(c, HIL_MOMENT1), oracle, "exp_avg.", &compared[1]);
        compare(hil_deepspeed_checkpoint_state(c, HIL_MOMENT2), oracle, "exp_avg_sq.",
                &compared[2]);
        CHECK_INT(compared[1], trained);
        CHECK_INT(compared[2], trained);
    } else {
        CHECK_TEXT(name, "stage2-3");
        CHECK_INT(hil_safetensors_count(hil_deepspeed_checkpoint_state(c, HIL_MOMENT2)), trained);
    }
    hil_deepspeed_checkpoint_close(c);
    hil_safetensors_close(oracle);
}

/* Files that are missing, damaged or not of ZeRO are refused with a line about them. */
static void check_refused(void)
{
    static const char last[] = "a/global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt";
    hil_deepspeed_checkpoint *c;
    char command[600], path[HIL_PATH_MAX];
    hil_bytes bytes;
    CHECK_FAILS(hil_deepspeed_checkpoint_open(&c, GOLDEN "none"), HIL_ERR_IO, "none");
    CHECK_FAILS(hil_deepspeed_checkpoint_open(&c, HIL_TESTS "/golden/models/llama"), HIL_ERR_INPUT,
                "no checkpoint of DeepSpeed");
    CHECK(mkdtemp(folder));
    snprintf(command, sizeof command, "cp -r '" GOLDEN "stage2-2' '%s/a'", folder);
    CHECK_INT(system(command), 0);
    CHECK_OK(hil_bytes_read(&bytes, in_folder(last)));
    CHECK_INT(remove(in_folder(last)), 0);
    snprintf(path, sizeof path, "%s", in_folder("a"));
    CHECK_FAILS(hil_deepspeed_checkpoint_open(&c, path), HIL_ERR_INPUT,
                "has the optimizer states of 1 ranks, but 2 saved them");
    CHECK_OK(hil_file_write(in_folder(last), bytes.data, bytes.size / 2));
    CHECK_FAILS(hil_deepspeed_checkpoint_open(&c, path), HIL_ERR_INPUT, "no zip archive");
    CHECK_OK(hil_file_write(in_folder(last), "", 0));
    CHECK_FAILS(hil_deepspeed_checkpoint_open(&c, path), HIL_ERR_INPUT, "no zip archive");
    CHECK_OK(hil_file_write(in_folder(last), bytes.data, bytes.size));
    CHECK_MEMORY(hil_deepspeed_checkpoint_open(&c, path));
    hil_deepspeed_checkpoint_close(c);
    CHECK_OK(hil_file_write(in_folder("a/latest"), "../x", 4));
    CHECK_FAILS(hil_deepspeed_checkpoint_open(&c, path), HIL_ERR_INPUT, "does not name");
    CHECK_OK(hil_deepspeed_checkpoint_open(&c, in_folder("a/global_step3")));
    hil_deepspeed_checkpoint_close(c);
    hil_bytes_free(&bytes);
    CHECK_OK(hil_file_remove_tree(folder));
}

int main(void)
{
    check_case("stage1-1", 1, 1, 12, 0);
    check_case("stage1-3", 1, 3, 12, 0);
    check_case("stage2-2", 2, 2, 11, 0); /* tied */
    check_case("stage2-3", 2, 3, 12, 0); /* two groups, parameters in another order */
    check_case("stage3-1", 3, 1, 12, 0);
    check_case("stage3-2", 3, 2, 10, 2); /* two are frozen */
    check_case("stage3-3", 3, 3, 11, 0); /* several sub-groups */
    check_refused();
    return 0;
}
