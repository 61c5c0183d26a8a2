/* Several ranks train what one trains. Losses agree closely with one rank's; for one number of
   ranks neither the stage of ZeRO nor any placement changes a bit. Each holds its part of the
   states, and what they send each other is what the documentation says. */
/* soak: --full */
#include "crew.h"
#include "io/file.h"

#include <unistd.h>

static double worst(const crew *a, const crew *b, int steps)
{
    double most = 0;
    for (int i = 0; i < steps; ++i) {
        double error = fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]);
        if (!(error <= most)) most = error;
    }
    return most;
}

/* Within 1e-6 at the first step and 1e-5 over all; a comm of one rank is no comm. */
static void check_close(int model)
{
    static const int sizes[] = {1, 2, 3, 4, 8};
    crew alone = crew_of(model, 0);
    crew_run(&alone);
    CHECK(alone.loss[CREW_STEPS - 1] < 0.95 * alone.loss[0]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        crew c = crew_of(model, sizes[i]);
        crew_run(&c);
        double first = worst(&c, &alone, 1), all = worst(&c, &alone, CREW_STEPS);
        printf("model %d, ranks %d: loss %.6f -> %.6f, off by %.1e at first, %.1e at most\n", model,
               sizes[i], c.loss[0], c.loss[CREW_STEPS - 1], first, all);
        CHECK(first <= 1e-6);
        CHECK(all <= 1e-5);
        if (sizes[i] == 1) CHECK(crew_same(&c, &alone));
        crew_free(&c);
    }
    crew_free(&alone);
}

/* What one rank's store holds and must communicate, by its units. */
typedef struct holding {
    uint64_t states;             /* bytes of all homes */
    uint64_t weights, gradients; /* bytes of a slice of all weights; of all uses' gradients */
    int zero;
    uint64_t planned_gathered, planned_reduced;
} holding;

static void look_at_units(hil_trainer *t, void *context)
{
    const hil_store *store = t->model->store;
    if (hil_comm_rank(t->options.comm)) return;
    holding *h = context;
    *h = (holding){.zero = t->planned.plan.zero,
                   .planned_gathered = t->planned.plan.gathered,
                   .planned_reduced = t->planned.plan.reduced};
    for (size_t u = 0; u < hil_store_units(store); ++u) {
        uint64_t uses = (uint64_t)hil_unit_uses(store, u);
        h->weights += uses ? hil_unit_bytes(store, u, HIL_WEIGHT) : 0;
        h->gradients += uses * hil_unit_bytes(store, u, HIL_GRADIENT);
        for (int s = 0; s < HIL_GRADIENT; ++s)
            h->states += hil_unit_bytes(store, u, (hil_unit_state)s);
        h->states += uses * hil_unit_bytes(store, u, HIL_GRADIENT);
    }
}

/* [Note: stages] in planner.h: the stages move different bytes and compute the same bits. */
static void check_stages(int model, int ranks, const char *dtype)
{
    crew c[3];
    for (int zero = 1; zero <= 3; ++zero) {
        holding h;
        crew *now = &c[zero - 1];
        *now = crew_of(model, ranks);
        now->dtype = dtype;
        now->zero = zero;
        now->look = look_at_units;
        now->context = &h;
        if (zero == 3) now->device_memory = 600 << 10;
        crew_run(now);
        const hil_step_account *a = &now->account[5];
        uint64_t others = (uint64_t)ranks - 1;
        printf("stage %d: gathered %llu of %llu, reduced %llu of %llu\n", zero,
               (unsigned long long)a->gathered_bytes, (unsigned long long)(others * h.weights),
               (unsigned long long)a->reduced_bytes, (unsigned long long)(others * h.gradients));
        CHECK_INT(h.zero, zero);
        CHECK_INT(a->gathered_bytes, h.planned_gathered);
        CHECK_INT(a->reduced_bytes, h.planned_reduced);
        CHECK_INT(a->reduced_bytes, others * h.gradients);
        if (zero < 3) CHECK_INT(a->gathered_bytes, others * h.weights);
        if (zero == 3) CHECK(a->gathered_bytes > others * h.weights);
        if (zero > 1) CHECK(crew_same(now, &c[0]));
    }
    for (int i = 0; i < 3; ++i) crew_free(&c[i]);
}

int main(int count, char **arguments)
{
    bool full = count > 1 && strcmp(arguments[1], "--full") == 0;
    for (int model = 0; model < CREW_MODELS; ++model)
        if (full || model == 1 || model == 2) check_close(model);
    check_stages(0, 4, "bf16");
    check_stages(3, 3, "fp32");
    return 0;
}
