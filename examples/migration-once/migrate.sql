-- One migration and its marker, in one transaction: both are there, or neither.

-- Whoever is paused in the middle keeps others waiting for no longer than this.
set local idle_in_transaction_session_timeout = '30s';
select exists (select from migrations where name = :'name') as done \gset
\if :done
\else
  -- First the marker: whoever tries the same at the same time waits here, and fails once it is committed.
  insert into migrations (name, term) values (:'name', :term);
  \i :file
  \echo applied :name in term :term
\endif
