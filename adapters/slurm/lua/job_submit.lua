-- JobSubmitPlugins=lua: every submission to this cluster is shown to the sidecar of mdts.
-- Belongs beside slurm.conf, with mdts.lua. Slurm reads it again whenever it changes; nothing is restarted.

local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"
local loaded, mdts = pcall(dofile, folder .. "mdts.lua")
if not loaded then
    slurm.log_error("mdts: jobs pass unchanged: %s", tostring(mdts))
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    if not loaded then
        return slurm.SUCCESS
    end
    -- Whatever goes wrong there is no reason to refuse a job.
    local fine, code = pcall(mdts.job_submit, job_desc, submit_uid)
    return fine and code or slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
