/* The model of shared_net.h: its gradients match finite differences and have the same bits in every
   order of execution. Frozen parameters get none. */
#include "autograd/engine.h"
#include "base/philox.h"
#include "check.h"
#include "placed.h"
#include "shared_net.h"
#include "store/state.h"

enum { SEQ = 6, BATCH = 4 };

static hil_trainer *start(hil_model **model, bool recompute, const char *frozen)
{
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.seed = 3;
    options.clip = 0;
    options.threads = 2;
    options.recompute = recompute;
    shared_net_build(model);
    if (frozen) hil_param_freeze(hil_store_find((*model)->store, frozen));
    CHECK_OK(hil_trainer_create(&trainer, *model, &options));
    return trainer;
}

static int32_t tokens[BATCH * SEQ];
static const hil_batch batch = {.sequences = BATCH, .length = SEQ, .token = tokens};
static const char *const names[] = {"table", "inner", "norm"};
static const int64_t counts[] = {V * C, C *C, C};

static void check_differences(void)
{
    hil_model *model;
    hil_trainer *trainer = start(&model, false, NULL);
    hil_step_result up, down;
    float gradient[V * C], weight[V * C];
    CHECK_OK(hil_trainer_step(trainer, &batch, 2, 0, &up));
    for (int p = 0; p < 3; ++p) {
        hil_param *param = hil_store_find(model->store, names[p]);
        CHECK_OK(hil_store_read(model->store, param, HIL_MOMENT1, 0, counts[p], gradient));
        CHECK_OK(hil_trainer_read(trainer, names[p], weight, counts[p]));
        for (int64_t i = 0; i < counts[p]; i += 7) {
            float kept = weight[i], h = 1e-2f;
            weight[i] = kept + h;
            CHECK_OK(hil_trainer_write(trainer, names[p], weight, counts[p]));
            CHECK_OK(hil_trainer_loss(trainer, &batch, &up));
            weight[i] = kept - h;
            CHECK_OK(hil_trainer_write(trainer, names[p], weight, counts[p]));
            CHECK_OK(hil_trainer_loss(trainer, &batch, &down));
            weight[i] = kept;
            CHECK_OK(hil_trainer_write(trainer, names[p], weight, counts[p]));
            CHECK_NEAR((double)gradient[i] * 10, (up.loss - down.loss) / (2 * (double)h), 2e-3);
        }
    }
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

static void run(const placement *p, float *table)
{
    static const hil_micro shape = {.sequences = 1, .length = SEQ};
    const hil_micro shapes[BATCH] = {shape, shape, shape, shape};
    hil_model *model;
    hil_trainer *trainer = start(&model, false, NULL);
    hil_engine *own = trainer->engine;
    placed_need need = placed_rehearse(trainer, p, shapes, BATCH, 3);
    placed here;
    placed_open(&here, trainer, p, &need);
    trainer->engine = here.engine;
    for (int step = 0; step < 3; ++step) {
        hil_step_result result;
        hil_account before;
        hil_links_take_account(here.tiers.links, &before);
        CHECK_OK(hil_trainer_step(trainer, &batch, 1, 1e-2, &result));
    }
    placed_check(&here, &need);
    CHECK_OK(hil_trainer_read(trainer, "table", table, V * C));
    trainer->engine = own;
    placed_close(&here);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

static void check_orders(void)
{
    static const int64_t keeps[][3] = {{9, 9, 9}, {0, 0, 0}, {1, 0, 2}, {0, 3, 1}};
    static const hil_tier tiers[][3] = {{HIL_DEVICE, HIL_DEVICE, HIL_DEVICE},
                                        {HIL_HOST, HIL_HOST, HIL_HOST},
                                        {HIL_DISK, HIL_DISK, HIL_DISK},
                                        {HIL_HOST, HIL_DISK, HIL_DEVICE},
                                        {HIL_DEVICE, HIL_HOST, HIL_DISK}};
    float expected[V * C], got[V * C];
    bool first = true;
    for (int64_t group = 0; group < 4; ++group)
        for (int k = 0; k < 4; ++k)
            for (int t = 0; t < 5; ++t) {
                placement p = {.group = group, .prefetch = (group + k + t) % 3 > 0};
                memcpy(p.keep, keeps[k], sizeof p.keep);
                memcpy(p.tier, tiers[t], sizeof p.tier);
                memcpy(p.tapes, tiers[(2 * t + k) % 5], sizeof p.tapes);
                run(&p, first ? expected : got);
                if (!first) CHECK(memcmp(got, expected, sizeof got) == 0);
                first = false;
            }
}

/* A frozen parameter keeps its value; the gradients of the others do not change. */
static void check_frozen(void)
{
    float moment[3][V * C], got[V * C], before[V * C];
    for (int frozen = -1; frozen < 3; ++frozen) {
        hil_model *model;
        hil_trainer *trainer = start(&model, frozen == 1, frozen < 0 ? NULL : names[frozen]);
        hil_step_result result;
        if (frozen >= 0) CHECK_OK(hil_trainer_read(trainer, names[frozen], before, counts[frozen]));
        CHECK_OK(hil_trainer_step(trainer, &batch, 2, 1e-2, &result));
        for (int p = 0; p < 3; ++p) {
            hil_param *param = hil_store_find(model->store, names[p]);
            size_t bytes = (size_t)counts[p] * sizeof *got;
            if (p == frozen) {
                CHECK_OK(hil_trainer_read(trainer, names[p], got, counts[p]));
                CHECK(memcmp(got, before, bytes) == 0);
                continue;
            }
            CHECK_OK(hil_store_read(model->store, param, HIL_MOMENT1, 0, counts[p],
                                    frozen < 0 ? moment[p] : got));
            if (frozen >= 0) CHECK(memcmp(got, moment[p], bytes) == 0);
        }
        hil_trainer_destroy(trainer);
        hil_model_destroy(model);
    }
}

int main(void)
{
    for (int i = 0; i < BATCH * SEQ; ++i) tokens[i] = (i * i + 3) % V;
    check_differences();
    check_frozen();
    check_orders();
    return 0;
}
