/* The least that can be done: the sampler's calls in a bare loop, with the same deadlines. Prints what it read.
 *
 *   cc -O2 -o nvml_loop nvml_loop.c -ldl;  nvml_loop RATE_HZ SECONDS
 *
 * Each tick: power now, power average and energy of every GPU in one call each. Five times a second utilization, once a
 * second clock, temperature, link, state, memory and event reasons. No GPM: its structures are of 19 kB and the cost is
 * the same for both.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void *Dev;
typedef struct { unsigned field, scope; long long ts, latency; int type, ret; unsigned long long value; } Field;
typedef struct { unsigned gpu, mem; } Util;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Mem;

#define F(name) static int (*name)()
F(nvmlInitWithFlags); F(nvmlDeviceGetCount_v2); F(nvmlDeviceGetHandleByIndex_v2); F(nvmlDeviceGetFieldValues);
F(nvmlDeviceGetUtilizationRates); F(nvmlDeviceGetClockInfo); F(nvmlDeviceGetTemperature); F(nvmlDeviceGetPerformanceState);
F(nvmlDeviceGetCurrPcieLinkGeneration); F(nvmlDeviceGetCurrPcieLinkWidth); F(nvmlDeviceGetMemoryInfo_v2);
F(nvmlDeviceGetCurrentClocksEventReasons);

static void *find(void *lib, const char *name) { void *f = dlsym(lib, name); if (!f) { fprintf(stderr, "no %s\n", name); exit(1); } return f; }

int main(int argc, char **argv) {
    double rate = argc > 1 ? atof(argv[1]) : 10, seconds = argc > 2 ? atof(argv[2]) : 5;
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!lib) { fprintf(stderr, "%s\n", dlerror()); return 1; }
#define L(name) name = find(lib, #name)
    L(nvmlInitWithFlags); L(nvmlDeviceGetCount_v2); L(nvmlDeviceGetHandleByIndex_v2); L(nvmlDeviceGetFieldValues);
    L(nvmlDeviceGetUtilizationRates); L(nvmlDeviceGetClockInfo); L(nvmlDeviceGetTemperature); L(nvmlDeviceGetPerformanceState);
    L(nvmlDeviceGetCurrPcieLinkGeneration); L(nvmlDeviceGetCurrPcieLinkWidth); L(nvmlDeviceGetMemoryInfo_v2);
    L(nvmlDeviceGetCurrentClocksEventReasons);
    unsigned count = 0, any;
    if (nvmlInitWithFlags(0) || nvmlDeviceGetCount_v2(&count) || count > 64) return 1;
    Dev dev[64]; Field field[64][3]; unsigned long long last[64] = {0}, reasons; unsigned util[64];
    memset(field, 0, sizeof field); memset(util, 0xff, sizeof util);
    for (unsigned g = 0; g < count; g++) {
        nvmlDeviceGetHandleByIndex_v2(g, &dev[g]);
        field[g][0].field = 186; field[g][1].field = 185; field[g][2].field = 83;
    }
    long ticks = (long)(rate * seconds), calls = 0, distinct = 0;
    long every_util = rate / 5 > 1 ? (long)(rate / 5) : 1, every_slow = rate > 1 ? (long)rate : 1;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long tick = 0; tick < ticks; tick++) {
        next.tv_nsec += (long)(1e9 / rate);
        while (next.tv_nsec >= 1000000000) next.tv_nsec -= 1000000000, next.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, 0);
        for (unsigned g = 0; g < count; g++) {
            nvmlDeviceGetFieldValues(dev[g], 3, field[g]); calls++;
            if (field[g][0].value != last[g]) distinct++, last[g] = field[g][0].value;
            if (tick % every_util == 0) {
                Util u; nvmlDeviceGetUtilizationRates(dev[g], &u); calls++;
                if (u.gpu != util[g]) distinct++, util[g] = u.gpu;
            }
            if (tick % every_slow == g % every_slow) {
                Mem m = { .version = sizeof(Mem) | 2 << 24 };
                nvmlDeviceGetClockInfo(dev[g], 1, &any); nvmlDeviceGetTemperature(dev[g], 0, &any);
                nvmlDeviceGetPerformanceState(dev[g], &any); nvmlDeviceGetCurrPcieLinkGeneration(dev[g], &any);
                nvmlDeviceGetCurrPcieLinkWidth(dev[g], &any); nvmlDeviceGetMemoryInfo_v2(dev[g], &m);
                nvmlDeviceGetCurrentClocksEventReasons(dev[g], &reasons); calls += 7;
            }
        }
    }
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf("%f %ld %ld\n", cpu.tv_sec + cpu.tv_nsec * 1e-9, calls, distinct);
    return 0;
}
