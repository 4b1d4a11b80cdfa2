(** Taylor sums below e^z, from the series that defines it: for z ≥ 0 any of them, for -1 ≤ z ≤ 0 those that end with a negative term. *)

From Coq Require Import Reals Lra.
Local Open Scope R_scope.

Definition term (z : R) (i : nat) : R := z ^ i / INR (fact i).

Lemma INR_fact_positive n : 0 < INR (fact n).
Proof. apply lt_0_INR, lt_O_fact. Qed.

Lemma exp_limit z : Un_cv (sum_f_R0 (term z)) (exp z).
Proof.
  unfold exp; destruct (exist_exp z) as [e cv]; simpl; intros small pos.
  destruct (cv small pos) as [N close]; exists N; intros n ge.
  rewrite (sum_eq _ (fun i => / INR (fact i) * z ^ i)); [now apply close|].
  intros; unfold term, Rdiv; ring.
Qed.

Lemma taylor_below_positive z n : 0 <= z -> sum_f_R0 (term z) n <= exp z.
Proof.
  intros nonneg; apply sum_incr; [apply exp_limit|].
  intros i; unfold term, Rdiv; apply Rmult_le_pos; [now apply pow_le|].
  left; apply Rinv_0_lt_compat, INR_fact_positive.
Qed.

Lemma taylor_below_negative z n : -1 <= z <= 0 -> sum_f_R0 (term z) (S (2 * n)) <= exp z.
Proof.
  intros range; set (u := fun i => term (- z) i).
  assert (E : forall k, sum_f_R0 (term z) k = sum_f_R0 (tg_alt u) k).
  { intros k; apply sum_eq; intros i _; unfold tg_alt, u, term.
    replace (z ^ i) with ((-1) ^ i * (- z) ^ i) by (rewrite <- Rpow_mult_distr; f_equal; ring); unfold Rdiv; ring. }
  rewrite E.
  apply (alternated_series_ineq u (exp z) n).
  - intros i; unfold u, term.
    rewrite fact_simpl, mult_INR; simpl pow.
    pose proof (INR_fact_positive i); pose proof (pow_le (- z) i ltac:(lra)).
    assert (1 <= INR (S i)) by (rewrite S_INR; pose proof (pos_INR i); lra).
    apply Rmult_le_reg_r with (INR (S i) * INR (fact i)); [nra|].
    replace (- z * (- z) ^ i / (INR (S i) * INR (fact i)) * (INR (S i) * INR (fact i))) with (- z * (- z) ^ i) by (field; lra).
    replace ((- z) ^ i / INR (fact i) * (INR (S i) * INR (fact i))) with ((- z) ^ i * INR (S i)) by (field; lra).
    nra.
  - apply cv_speed_pow_fact.
  - intros small pos; destruct (exp_limit z small pos) as [N close]; exists N; intros k ge; rewrite <- E; now apply close.
Qed.

Lemma exp_at_least_one z : 0 <= z -> 1 <= exp z.
Proof. intros nonneg; pose proof (taylor_below_positive z 0 nonneg) as le; unfold term in le; simpl in le; lra. Qed.

Lemma exp_monotone a b : a <= b -> exp a <= exp b.
Proof.
  intros le; replace b with (a + (b - a)) by ring; rewrite exp_plus.
  pose proof (exp_pos a); pose proof (exp_at_least_one (b - a) ltac:(lra)); nra.
Qed.
