From Darrm Require Import Checker.
