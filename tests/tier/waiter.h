/* waiter.h - jobs that end only after the main thread waits for them, however busy the machine. */
#ifndef WAITER_H
#define WAITER_H

#include "check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Set by the main thread right before it waits. */
static atomic_int waiter_comes;

static inline bool waiter_sleeps(void)
{
    char text[256];
    FILE *file = fopen("/proc/self/stat", "r"); /* of the main thread */
    CHECK(file && fgets(text, sizeof text, file));
    fclose(file);
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' && state[2] == 'S';
}

/* For a job: returns 20 ms or more after the main thread began to wait. */
static inline void waiter_await(void)
{
    while (!atomic_load(&waiter_comes) || !waiter_sleeps()) usleep(1000);
    usleep(20000);
    atomic_store(&waiter_comes, 0);
}

#endif
