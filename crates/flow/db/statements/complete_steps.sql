/* complete_steps */
-- Ends attempts: see functions/complete_steps.sql. $1 batch  $2 channels  $3 payloads  $4 patient
-- A report is one element of each of $5 tasks  $6 ordinals  $7 fences  $8 reports  $9 bodies  $10 delays in ms
-- $11 templates  $12 slots. The chosen steps of all reports are $14, the inputs of their parts $16; $13 and $15 say
-- where those of each report end.
select outcomes, backend
from {schema}.complete_steps($1, $2, $3, $4, array(
    select row(
        report.task_id, report.ordinal, report.fence, report.report, report.body, report.delay_ms,
        report.template_id, report.slot,
        ($14::integer[])[coalesce(($13::integer[])[report.index - 1], 0) + 1:($13::integer[])[report.index]],
        ($16::text[])[coalesce(($15::integer[])[report.index - 1], 0) + 1:($15::integer[])[report.index]]
    )::{schema}.step_report
    from unnest(
        $5::uuid[], $6::integer[], $7::bigint[], $8::text[], $9::text[], $10::bigint[], $11::integer[], $12::integer[]
    ) with ordinality as report (
        task_id, ordinal, fence, report, body, delay_ms, template_id, slot, index)
    order by report.index
))
