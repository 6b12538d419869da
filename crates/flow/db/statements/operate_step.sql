/* operate_step */
-- Does with a step what a person wants: see functions/operate_step.sql.
select outcomes, backend from {schema}.operate_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
