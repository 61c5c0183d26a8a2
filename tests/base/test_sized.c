/* Option structures from programs with other headers: in a smaller one the missing fields get the
   library's defaults, a larger one must not set fields that the library does not know, and one
   whose size was never set is refused before any field is read. */
#include "base/sized.h"

#include "check.h"

/* The structure of the library, of older headers and of newer ones. */
typedef struct hil_sample_options {
    size_t size;
    int depth;
    const char *name;
    double rate;
} hil_sample_options;
typedef struct older {
    size_t size;
    int depth;
} older;
typedef struct newer {
    hil_sample_options known;
    int unknown[3];
} newer;

static void hil_sample_defaults_sized(void *options, size_t size)
{
    const hil_sample_options defaults = {.depth = 3, .name = "usual", .rate = 0.5};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}
#define hil_sample_defaults(options) hil_sample_defaults_sized(options, sizeof *(options))

static void check_same(void)
{
    hil_sample_options given, own;
    hil_sample_defaults(&given);
    CHECK_INT(given.size, sizeof given);
    CHECK(given.depth == 3 && given.rate == 0.5);
    given.depth = 7;
    CHECK_OK(HIL_SIZED_TAKE(hil_sample, &own, &given));
    CHECK(own.size == sizeof own && own.depth == 7 && own.rate == 0.5);
    CHECK_TEXT(own.name, "usual");
}

static void check_older(void)
{
    struct {
        older options;
        char after[16];
    } given;
    hil_sample_options own;
    memset(&given, 'x', sizeof given);
    hil_sample_defaults(&given.options);
    for (size_t i = 0; i < sizeof given.after; ++i) CHECK(given.after[i] == 'x');
    CHECK_INT(given.options.size, sizeof given.options);
    CHECK_INT(given.options.depth, 3);
    given.options.depth = 9;
    CHECK_OK(HIL_SIZED_TAKE(hil_sample, &own, &given.options));
    CHECK(own.size == sizeof own && own.depth == 9 && own.rate == 0.5);
    CHECK_TEXT(own.name, "usual");
}

static void check_newer(void)
{
    newer given;
    hil_sample_options own;
    memset(&given, 'x', sizeof given);
    hil_sample_defaults(&given);
    for (int i = 0; i < 3; ++i) CHECK_INT(given.unknown[i], 0);
    given.known.depth = 5;
    CHECK_OK(HIL_SIZED_TAKE(hil_sample, &own, &given));
    CHECK(own.size == sizeof own && own.depth == 5);
    given.unknown[2] = 1;
    CHECK_FAILS(HIL_SIZED_TAKE(hil_sample, &own, &given), HIL_ERR_USAGE,
                "hil_sample_options sets options that hilbert");
}

static void check_forgotten(void)
{
    hil_sample_options given = {.depth = 1}, own;
    CHECK_FAILS(HIL_SIZED_TAKE(hil_sample, &own, &given), HIL_ERR_USAGE,
                "call hil_sample_defaults");
    memset(&given, 0xa5,
           sizeof given); /* as uninitialised memory: a size far beyond the structure */
    CHECK_FAILS(HIL_SIZED_TAKE(hil_sample, &own, &given), HIL_ERR_USAGE,
                "call hil_sample_defaults");
}

int main(void)
{
    check_same();
    check_older();
    check_newer();
    check_forgotten();
    return 0;
}
