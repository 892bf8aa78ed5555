-- CliFilterPlugins=lua: sbatch, srun and salloc show what they are about to submit to the sidecar of mdts, as their user.
-- Belongs beside slurm.conf, with mdts.lua. Users can go round it; the sidecar's socket must be open to them (--mode 0666).

local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"
local loaded, mdts = pcall(dofile, folder .. "mdts.lua")

function slurm_cli_setup_defaults(options, early_pass)
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
    -- srun inside a job starts a step of it, which has its place already.
    if not loaded or os.getenv("SLURM_JOB_ID") then
        return slurm.SUCCESS
    end
    local fine, code = pcall(mdts.cli_filter, options, pack_offset)
    return fine and code or slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    return slurm.SUCCESS
end

return slurm.SUCCESS
