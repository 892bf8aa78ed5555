/* Prints what the plugin has to know of Slurm's job_desc_msg_t: version, constants, and offset and size of every field. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stddef.h>
#include <stdio.h>

#define FIELD(name) \
    printf("%s %zu %zu\n", #name, offsetof(job_desc_msg_t, name), sizeof(((job_desc_msg_t *)0)->name));

int main(void) {
    printf("VERSION %lu 0\n", (unsigned long)SLURM_VERSION_NUMBER);
    printf("SIZE %zu 0\n", sizeof(job_desc_msg_t));
    printf("NO_VAL %lu 0\n", (unsigned long)NO_VAL);
    printf("NICE_OFFSET %lu 0\n", (unsigned long)NICE_OFFSET);
    printf("CONFIG_UNAVAILABLE %lu 0\n", (unsigned long)ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE);
    FIELD(admin_comment)
    FIELD(array_inx)
    FIELD(begin_time)
    FIELD(clusters)
    FIELD(comment)
    FIELD(contiguous)
    FIELD(cores_per_socket)
    FIELD(cpus_per_task)
    FIELD(cpus_per_tres)
    FIELD(dependency)
    FIELD(exc_nodes)
    FIELD(features)
    FIELD(het_job_offset)
    FIELD(max_nodes)
    FIELD(mem_per_tres)
    FIELD(min_cpus)
    FIELD(min_nodes)
    FIELD(name)
    FIELD(nice)
    FIELD(ntasks_per_node)
    FIELD(num_tasks)
    FIELD(partition)
    FIELD(pn_min_cpus)
    FIELD(pn_min_memory)
    FIELD(prefer)
    FIELD(priority)
    FIELD(req_nodes)
    FIELD(req_switch)
    FIELD(reservation)
    FIELD(shared)
    FIELD(sockets_per_node)
    FIELD(threads_per_core)
    FIELD(time_limit)
    FIELD(tres_per_job)
    FIELD(tres_per_node)
    FIELD(tres_per_socket)
    FIELD(tres_per_task)
    FIELD(user_id)
    return 0;
}
