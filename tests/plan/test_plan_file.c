/* A plan survives writing and reading; an edited plan is followed; errors in a file are named. */
#include "check.h"
#include "plan/plan_file.h"
#include "small_outline.h"

static void fill(hil_plan *p)
{
    CHECK_OK(hil_plan_create(p, &outline));
    p->device_budget = 700 << 10;
    p->host_budget = 1 << 20;
    p->disk_budget = (uint64_t)3 << 40;
    p->prefetch = false;
    p->zero = 2;
    p->by_segment = p->keeps_sums = true;
    p->gathered = 4321;
    p->group = 4;
    p->window = 123456;
    p->ring = 65536;
    p->chunk = 8192;
    p->slots = 3;
    p->spill = HIL_DISK;
    for (size_t u = 0; u < 4; ++u)
        for (unsigned s = 0; s < HIL_UNIT_STATES; ++s)
            if (hil_outline_bytes(&units[u], (int)s))
                p->unit[u].tier[s] = (unsigned char)((u + s) % HIL_TIERS);
    p->segment[1] = (hil_segment_place){2, 1, HIL_DISK, HIL_HOST, true};
    p->segment[2] = (hil_segment_place){4, 0, HIL_HOST, HIL_DISK, false};
    p->peak[HIL_HOST] = 999;
    p->disk_read = (uint64_t)5 << 40;
    p->step_seconds = 1.5;
    p->wait[HIL_WAIT_UPDATE] = 0.25;
}

static char *text_of(const hil_plan *p)
{
    json_t *object;
    CHECK_OK(hil_plan_write(&outline, p, NULL, &object));
    char *text = json_dumps(object, JSON_INDENT(1));
    CHECK(text != NULL);
    json_decref(object);
    return text;
}

static void check_round(void)
{
    hil_plan a, b;
    fill(&a);
    char *text = text_of(&a);
    CHECK_OK(hil_plan_parse(&b, &outline, text, strlen(text), "p"));
    CHECK(b.device_budget == a.device_budget && b.host_budget == a.host_budget);
    CHECK(b.disk_budget == a.disk_budget && b.prefetch == a.prefetch && b.group == a.group);
    CHECK(b.window == a.window && b.ring == a.ring && b.chunk == a.chunk && b.slots == a.slots);
    CHECK(b.spill == a.spill && b.ranks == a.ranks && b.zero == 2 && b.by_segment);
    CHECK(b.keeps_sums);
    CHECK(memcmp(a.unit, b.unit, 4 * sizeof *a.unit) == 0);
    for (int i = 0; i < 3; ++i)
        CHECK(a.segment[i].keep == b.segment[i].keep && a.segment[i].lean == b.segment[i].lean &&
              a.segment[i].tier == b.segment[i].tier && a.segment[i].tapes == b.segment[i].tapes &&
              a.segment[i].thin == b.segment[i].thin);
    /* Keys that the documentation of `plan --json` promises. */
    static const char *const keys[] = {"\"fits\": true",
                                       "\"peak\": {",
                                       "\"bytes_per_step\": {",
                                       "\"step_seconds\": 1.5",
                                       "\"limit\": ",
                                       "\"exposed_update_seconds\": 0.25",
                                       "\"disk_read\": 5497558138880",
                                       "\"gathered\": 4321",
                                       "\"moment1\": \"disk\"",
                                       "\"activations\": \"host\"",
                                       "\"tapes\": \"disk\"",
                                       "\"thin\": true"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i)
        if (!strstr(text, keys[i])) check_die(__FILE__, __LINE__, keys[i]);
    free(text);
    hil_plan_free(&a);
    hil_plan_free(&b);
}

/* Replaces the first `from` of a good plan by `to`. */
static hil_status edited(const char *from, const char *to, hil_plan *out)
{
    hil_plan p;
    fill(&p);
    char *text = text_of(&p), *at = strstr(text, from), *whole;
    CHECK(at != NULL);
    size_t size = strlen(text) + strlen(to) + 1;
    CHECK((whole = malloc(size)) != NULL);
    snprintf(whole, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    hil_status status = hil_plan_parse(out, &outline, whole, strlen(whole), "my.json");
    free(whole);
    free(text);
    hil_plan_free(&p);
    return status;
}

static void check_edited(void)
{
    hil_plan p;
    CHECK_OK(edited("\"weight\": \"device\"", "\"weight\": \"disk\"", &p));
    CHECK_INT(p.unit[0].tier[HIL_WEIGHT], HIL_DISK);
    hil_plan_free(&p);
    CHECK_OK(edited("\"chunk\": 8192", "\"chunk\": 1048576", &p));
    CHECK_INT(p.chunk, 1 << 20);
    hil_plan_free(&p);
    static const struct {
        const char *from, *to, *words;
    } bad[] = {
        {"\"chunk\": 8192", "\"chunk\": 8193", "my.json: \"chunk\" must be a multiple of 4096"},
        {"\"chunk\": 8192", "\"chunk\": 0", "\"chunk\" must be a multiple"},
        {"\"chunk\": 8192", "\"chunk\": 1e300", "\"chunk\" must be a whole number"},
        {"\"chunk\": 8192", "\"chink\": 8192", "\"chunk\" must be a whole number"},
        {"\"slots\": 3", "\"slots\": 65", "\"slots\" must be a whole number from 0 to 64"},
        {"\"slots\": 3", "\"slots\": -1", "\"slots\" must be"},
        {"\"group\": 4", "\"group\": 0", "\"group\" must be 1 or more"},
        {"\"group\": 4", "\"group\": 3", "\"keep\" must be a whole number from 0 to 3"},
        {"\"lean\": 1", "\"lean\": 5", "\"lean\" must be a whole number from 0 to 4"},
        {"\"thin\": true", "\"thin\": 1", "\"thin\" must be true or false"},
        {"\"tapes\": \"disk\"", "\"tapes\": \"ram\"",
         "\"tapes\" must be \"device\", \"host\" or \"disk\""},
        {"\"window\": 123456", "\"window\": \"big\"", "\"window\" must be a whole number"},
        {"\"spill\": \"disk\"", "\"spill\": \"device\"", "\"spill\" must be \"host\" or \"disk\""},
        {"\"weight\": \"device\"", "\"weight\": \"gpu\"",
         "\"weight\" of unit \"embed[0]\" must be \"device\", \"host\" or \"disk\""},
        {"\"name\": \"embed[0]\"", "\"name\": \"embed[9]\"", "the model has no unit \"embed[9]\""},
        {"\"name\": \"embed[0]\"", "\"name\": \"embed[1]\"", "elements"},
        {"\"elements\": 4096", "\"elements\": 4097", "unit \"embed[0]\" has 4097 elements"},
        {"\"name\": \"head\"", "\"name\": \"tail\"", "segment 2 must be \"head\", not \"tail\""},
        {"\"units\": [", "\"units\": [3, ", "\"units\" must be an array of objects"},
        {"\"ranks\": 1", "\"ranks\": 4", "this plan is for 4 ranks, but there is 1"},
        {"\"zero\": 2", "\"zero\": 4", "\"zero\" must be 1, 2 or 3"},
        {"\"by_segment\": true", "\"by_segment\": 7", "\"by_segment\" must be"},
        {"\"keeps_sums\": true", "\"keeps_sums\": 7", "\"keeps_sums\" must be"},
        {"\"fits\": true", "\"fits\": false", "does not fit"},
        {"\"units\"", "\"unites\"", "\"units\" must be an array"},
        {"{", "[", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i)
        CHECK_FAILS(edited(bad[i].from, bad[i].to, &p), HIL_ERR_INPUT, bad[i].words);
    CHECK_FAILS(hil_plan_parse(&p, &outline, "[]", 2, "x"), HIL_ERR_INPUT, "a JSON object");
    CHECK_FAILS(hil_plan_read(&p, &outline, "/nonexistent.json"), HIL_ERR_IO, "/nonexistent.json");
    /* A unit that is left out is named. */
    hil_outline more = outline;
    more.units = 3;
    hil_plan small;
    CHECK_OK(hil_plan_create(&small, &more));
    small.chunk = 4096, small.slots = 2, small.spill = HIL_HOST;
    json_t *object;
    CHECK_OK(hil_plan_write(&more, &small, NULL, &object));
    char *text = json_dumps(object, 0);
    json_decref(object);
    CHECK_FAILS(hil_plan_parse(&p, &outline, text, strlen(text), "x"), HIL_ERR_INPUT,
                "unit \"frozen\" of the model is missing");
    free(text);
    hil_plan_free(&small);
}

static void check_limit(void)
{
    hil_plan p = {.step_seconds = 1};
    CHECK_TEXT(hil_plan_limit(&p), "compute");
    p.wait[HIL_WAIT_WEIGHTS] = 0.5;
    p.busy[HIL_LINK_IN] = 0.9;
    CHECK_TEXT(hil_plan_limit(&p), "host link");
    p.busy[HIL_LINK_FETCH] = 0.95;
    CHECK_TEXT(hil_plan_limit(&p), "disk");
    p.wait[HIL_WAIT_UPDATE] = 0.6;
    p.busy[HIL_LINK_UPDATE] = 0.6;
    CHECK_TEXT(hil_plan_limit(&p), "update");
    p.busy[HIL_LINK_READ] = 0.7;
    p.disk_read = 1;
    CHECK_TEXT(hil_plan_limit(&p), "disk");
}

int main(void)
{
    check_round();
    check_edited();
    check_limit();
    return 0;
}
